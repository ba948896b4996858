"""What becomes of messages when the database fails: it dies, stands still, fills up, or hands over to its standby."""
