"""The broker as a process: what `rowlock serve` runs."""
