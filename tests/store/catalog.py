"""The catalog: ids, entries, compare and swap, the shared secret, leases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock.store.port import Entry

from .session import Fixtures, eventually

if TYPE_CHECKING:
    from rowlock.store.port import Store

    from .session import Reopen


def entry(number: int, name: str, kind: str = "topic", version: int = 1, parent: int | None = None) -> Entry:
    document = '{"größe": 1, "quote": "\\"\'"}'
    return Entry(kind, number, name, version, document, created_at=1_700_000_000_000, owner="Ökonom", parent=parent)


def names(entries: list[Entry]) -> list[str]:
    return [each.name for each in entries]


class Catalog(Fixtures):
    async def test_ids_are_given_out_once(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        calls = [each.control.allocate(count) for each in (store, other) for count in (1, 5, 3)]
        given = await asyncio.gather(*calls)
        ids = [first + n for first, count in zip(given, (1, 5, 3) * 2, strict=True) for n in range(count)]
        assert len(set(ids)) == 18
        assert min(ids) >= 1

    async def test_an_entry_keeps_every_field(self, store: Store) -> None:
        there = [entry(1, "orders"), entry(2, "orders", "subscription", parent=1)]
        assert await store.control.apply(inserts=there)
        assert await store.control.get([2, 1, 99]) in (there, there[::-1])
        assert await store.control.find("subscription", ["orders", "nothing"]) == there[1:]
        assert await store.control.find("topic", []) == await store.control.get([]) == []

    async def test_names_differ_by_case(self, store: Store) -> None:
        assert await store.control.apply(inserts=[entry(1, "orders"), entry(2, "Orders"), entry(3, "orders ")])
        assert [e.id for e in await store.control.find("topic", ["Orders"])] == [2]
        assert await store.control.find("topic", ["ORDERS"]) == []
        assert await store.control.find("Topic", ["orders"]) == []

    async def test_children_by_kind(self, store: Store) -> None:
        parts = [entry(n, f"part-{n}", "partition", parent=1 + n % 2) for n in (10, 11, 12, 13)]
        await store.control.apply(inserts=[entry(1, "a"), entry(2, "b"), entry(3, "task", "task", parent=1), *parts])
        assert sorted(e.id for e in await store.control.children("partition", [1])) == [10, 12]
        assert sorted(e.id for e in await store.control.children("partition", [1, 2, 99])) == [10, 11, 12, 13]
        assert await store.control.children("partition", []) == []

    async def test_a_list_is_in_order_of_bytes(self, store: Store) -> None:
        ordered = ["-a", "A", "B", "Z.fifo", "_", "a", "a-b", "aB", "a_", "ab", "b"]
        await store.control.apply(inserts=[entry(n + 1, name) for n, name in enumerate(reversed(ordered))])
        await store.control.apply(inserts=[entry(100, "a", "subscription")])
        assert names(await store.control.list("topic")) == ordered
        assert names(await store.control.list("topic", limit=3)) == ordered[:3]
        assert names(await store.control.list("topic", after="B", limit=3)) == ordered[3:6]
        assert names(await store.control.list("topic", prefix="a")) == ["a", "a-b", "aB", "a_", "ab"]
        assert names(await store.control.list("topic", prefix="a", after="a-b")) == ["aB", "a_", "ab"]
        assert names(await store.control.list("topic", prefix="a_")) == ["a_"]
        assert names(await store.control.list("topic", prefix="%")) == []
        assert await store.control.list("task") == []

    async def test_a_replacement_names_the_version_before(self, store: Store) -> None:
        await store.control.apply(inserts=[entry(1, "a", version=4)])
        newer = entry(1, "a", version=5)
        newer.document, newer.owner = '{"new": true}', "another"
        assert not await store.control.apply(replaces=[entry(1, "a", version=4)])
        assert not await store.control.apply(replaces=[entry(1, "a", version=6)])
        assert not await store.control.apply(replaces=[entry(2, "b", version=1)])
        assert await store.control.apply(replaces=[newer])
        assert await store.control.get([1]) == [newer]
        assert not await store.control.apply(replaces=[newer])

    async def test_a_removal_names_its_version(self, store: Store) -> None:
        await store.control.apply(inserts=[entry(1, "a", version=4)])
        assert not await store.control.apply(removes=[entry(1, "a", version=3)])
        assert not await store.control.apply(removes=[entry(2, "a", version=4)])
        assert await store.control.apply(removes=[entry(1, "a", version=4)])
        assert await store.control.get([1]) == []
        assert await store.control.apply(inserts=[entry(2, "a")])

    @pytest.mark.parametrize("taken", [entry(9, "a"), entry(1, "z"), entry(1, "a")], ids=["name", "id", "both"])
    async def test_what_exists_is_not_inserted_and_nothing_else_happens(self, store: Store, taken: Entry) -> None:
        there = [entry(1, "a"), entry(2, "b")]
        await store.control.apply(inserts=there)
        changed = {"replaces": [entry(1, "a", version=2)], "removes": [entry(2, "b")]}
        assert not await store.control.apply(inserts=[entry(3, "c"), taken], **changed)
        assert await store.control.list("topic") == there
        assert await store.control.apply(inserts=[entry(3, "c")], **changed)
        assert [(e.id, e.version) for e in await store.control.list("topic")] == [(1, 2), (3, 1)]

    async def test_an_empty_change_succeeds(self, store: Store) -> None:
        assert await store.control.apply()

    async def test_of_two_that_replace_one_succeeds(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        await store.control.apply(inserts=[entry(1, "a")])
        calls = [each.control.apply(replaces=[entry(1, "a", version=2)]) for each in (store, other) for _ in range(3)]
        assert sorted(await asyncio.gather(*calls)) == [False] * 5 + [True]

    async def test_of_two_that_insert_one_succeeds(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        calls = [each.control.apply(inserts=[entry(n, "a")]) for n, each in enumerate((store, other) * 3, 1)]
        assert sorted(await asyncio.gather(*calls)) == [False] * 5 + [True]

    async def test_all_stores_share_one_secret(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        secrets = await asyncio.gather(*(each.control.secret() for each in (store, other, store)))
        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32
        assert len(set(secrets[0])) > 8
        assert await (await reopen()).control.secret() == secrets[0]

    async def test_a_lease_has_one_holder_who_may_renew_it(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        assert await store.control.lease("timers", 1, 60_000)
        assert not await other.control.lease("timers", 2, 60_000)
        assert await store.control.lease("timers", 1, 60_000)
        assert await other.control.lease("sweeps", 2, 60_000)

    async def test_a_lease_passes_on_when_it_ran_out(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        assert await store.control.lease("timers", 1, 1)
        await eventually(lambda: other.control.lease("timers", 2, 60_000))
        assert not await store.control.lease("timers", 1, 60_000)

    async def test_of_many_that_want_a_lease_one_gets_it(self, store: Store, reopen: Reopen) -> None:
        other = await reopen()
        calls = [each.control.lease("timers", n, 60_000) for n, each in enumerate((store, other) * 3, 1)]
        assert sorted(await asyncio.gather(*calls)) == [False] * 5 + [True]

    async def test_the_clock_does_not_run_backward(self, store: Store) -> None:
        earlier = await store.control.clock()
        assert 1_700_000_000_000 < earlier <= await store.control.clock()
