"""Ledgers that are broken on purpose, to be imported by the broker processes of a simulation before they begin."""
