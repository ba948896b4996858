"""MariaDB: the conformance suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.store.mariadb import MariadbStore

from .conformance import StoreConformance

if TYPE_CHECKING:
    from .session import NewStore


class TestMariadb(StoreConformance):
    @pytest.fixture
    def new_store(self, mariadb_url: str) -> NewStore:
        return lambda: MariadbStore(mariadb_url)
