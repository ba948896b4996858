"""The broker: verbs, the works that cycles carry, the cycle itself, and what goes on in the background."""
