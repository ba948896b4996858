"""Ledgers: every decision about which message goes where, without I/O."""
