"""What survives kill -9 and SIGSTOP."""
