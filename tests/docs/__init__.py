"""Tests of the documents: what they show works, and what they name exists."""
