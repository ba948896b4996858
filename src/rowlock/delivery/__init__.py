"""Whatever waits: claims that wait for messages."""
