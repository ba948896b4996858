"""A broker, a second one on the same database, and the rig that holds their clock and their stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .rig import Rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock import Broker


@pytest.fixture
def lanes() -> int:
    """How many lanes the database has; a test may ask for three by `@pytest.mark.parametrize("lanes", [3])`."""
    return 1


@pytest.fixture
async def rig(store_url: str, lanes: int) -> AsyncIterator[Rig]:
    rig = Rig(store_url, lanes)
    yield rig
    await rig.close()
    assert not rig.trespasses, "a transaction has one lane's tables only"


@pytest.fixture
async def broker(rig: Rig) -> Broker:
    return await rig.open()


@pytest.fixture
async def other(rig: Rig, broker: Broker) -> Broker:
    """A second broker on the same database."""
    return await rig.open()


three_lanes = pytest.mark.parametrize("lanes", [1, 3])
