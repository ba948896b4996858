"""What a broker promises, on every database, alone and beside others."""
