"""Taking turns: both sides get the same number of slices, in alternating order, and the median counts."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from rowlock.bench.ground import QUICK, Ground
from rowlock.bench.servers import SERVERS
from rowlock.bench.turns import Side, Slice, compare, loop


@pytest.fixture
def ground() -> Ground:
    """Of a server that is never started."""
    return Ground(SERVERS["sqlite"](), "", structs.replace(QUICK, rounds=3))


def side(name: str, rates: list[int], order: list[str]) -> Side:
    left = iter(rates)

    async def one(_: float) -> Slice:
        order.append(name)
        return Slice(next(left), 1.0)

    return one


async def test_medians_of_alternating_turns(ground: Ground) -> None:
    order: list[str] = []
    ours, plain = side("ours", [1, 100, 900, 200], order), side("plain", [1, 50, 100, 90], order)
    found = await compare(ground, ours, plain, "work", "plain work")
    assert (found.ours, found.baseline, found.value) == (200, 90, 200 / 90)
    assert order == ["ours", "plain", "plain", "ours", "ours", "plain", "plain", "ours"]
    assert "3 rounds" in found.scale
    assert "plain work" in found.scale


async def test_a_loop_counts_what_all_callers_carried() -> None:
    numbers: set[int] = set()

    async def step(number: int) -> int:
        numbers.add(number)
        await asyncio.sleep(0)
        return 10

    done = await loop(step, callers=5)(0.01)
    assert numbers == set(range(5))
    assert done.messages >= 50
    assert done.messages % 10 == 0
    assert done.seconds >= 0.01
    assert done.rate == done.messages / done.seconds
