"""What writes parts of this repository from other parts; `make generate` runs all of it."""
