"""The other side: what one would write by hand on each database."""
