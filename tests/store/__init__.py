"""The conformance suite of stores, and what each dialect adds to it."""

import pytest

SUITE = (
    "conformance",
    "transactions",
    "turns",
    "reading",
    "background",
    "attempts",
    "catalog",
    "contention",
    "opening",
    "session",
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in SUITE))
