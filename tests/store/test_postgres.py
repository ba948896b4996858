"""PostgreSQL: the conformance suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.store.postgres import PostgresStore

from .conformance import StoreConformance

if TYPE_CHECKING:
    from .session import NewStore


class TestPostgres(StoreConformance):
    @pytest.fixture
    def new_store(self, postgres_url: str) -> NewStore:
        return lambda: PostgresStore(postgres_url)
