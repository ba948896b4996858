"""The library without async: as its source says, from many threads, interrupted, closed, forked."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from tools import generate_blocking

import rowlock
from rowlock import Message, blocking, embedded
from rowlock.blocking.loop import LoopThread
from rowlock.errors import Closed, NotFound, PublishRefused, StaleReceipt

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_it_is_what_its_source_says() -> None:
    assert generate_blocking.TARGET.read_text() == generate_blocking.generated(), "run: make generate"


@pytest.mark.parametrize("name", ["Broker", "ClaimedMessage"])
def test_it_has_every_verb(name: str) -> None:
    def public(kind: type) -> set[str]:
        return {one for one in vars(kind) if not one.startswith("_")}

    ours, theirs = getattr(blocking, name), getattr(embedded, name)
    assert public(ours) == public(theirs)
    assert not any(inspect.iscoroutinefunction(one) for one in vars(ours).values())


@pytest.fixture
def broker(sqlite_url: str) -> Iterator[blocking.Broker]:
    with rowlock.blocking.open(sqlite_url) as broker:
        yield broker


def test_a_message_there_and_back(broker: blocking.Broker) -> None:
    broker.create_queue("orders", visibility_timeout=60)
    broker.publish("orders", [Message(b"a", key="k"), b"b"])
    first, second = broker.claim("orders", 10, wait=5)
    assert (first.body, first.key, first.receives, second.body) == (b"a", "k", 1, b"b")
    first.extend(90)
    first.settle()
    second.release(0)
    (again,) = broker.claim("orders")
    broker.settle([again])
    broker.settle([again.receipt])
    with pytest.raises(StaleReceipt):
        again.release()
    assert broker.depth("orders").total == 0
    assert "receives=2" in repr(again)


def test_errors_are_those_of_the_library(broker: blocking.Broker) -> None:
    with pytest.raises(NotFound):
        broker.claim("nothing")
    broker.create_queue("orders")
    with pytest.raises(PublishRefused) as refused:
        broker.publish("orders", [b"a", b"x" * 5000])
    assert [number for number, _ in refused.value.refused] == [1]


def test_a_generator_runs_in_its_callers_thread(broker: blocking.Broker) -> None:
    broker.create_queue("orders")
    threads = set()

    def bodies() -> Iterator[bytes]:
        threads.add(threading.current_thread())
        yield b"a"

    broker.publish("orders", bodies())
    assert threads == {threading.current_thread()}


def test_many_threads_share_one_broker(broker: blocking.Broker) -> None:
    broker.create_queue("orders")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: broker.publish("orders", str(number).encode()), range(80)))

        def consume(_: int) -> list[bytes]:
            claimed = broker.claim("orders", 10, wait=5)
            broker.settle(claimed)
            return [one.body for one in claimed]

        got = [body for bodies in pool.map(consume, range(8)) for body in bodies]
    assert sorted(got, key=int) == [str(number).encode() for number in range(80)]


def test_a_waiting_thread_is_woken_by_another(broker: blocking.Broker) -> None:
    broker.create_queue("orders")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(broker.claim, "orders", wait=20)
        broker.publish("orders", b"a")
        assert [one.body for one in waiting.result(10)] == [b"a"]


def test_closed(sqlite_url: str) -> None:
    broker = rowlock.blocking.open(sqlite_url)
    with broker:
        broker.create_queue("orders")
    with pytest.raises(Closed):
        broker.publish("orders", b"a")
    broker.close()
    rowlock.blocking.Broker(sqlite_url).close()


def test_closing_ends_a_wait(sqlite_url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with rowlock.blocking.open(sqlite_url) as broker:
            broker.create_queue("orders")
            waiting = pool.submit(broker.claim, "orders", wait=20)
            while not broker._broker._delivery.waiters.count:
                assert not waiting.done()
        with pytest.raises(Closed):
            waiting.result(10)


def test_a_broker_that_cannot_open_leaves_no_thread(tmp_path: Any) -> None:
    with pytest.raises(rowlock.errors.InvalidArgument):
        rowlock.blocking.open(f"sqlite:///{tmp_path}/no/folder.db").open()
    assert not [one for one in threading.enumerate() if one.name == "rowlock"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_is_told(broker: blocking.Broker) -> None:
    broker.create_queue("orders")
    child = os.fork()
    if not child:
        try:
            broker.publish("orders", b"a")
        except Closed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_interrupted_call_is_cancelled() -> None:
    thread = LoopThread()
    cancelled = threading.Event()

    async def long() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        thread.run(long())
    assert cancelled.is_set()
    thread.stop()


@pytest.mark.parametrize("begun", [False, True])
def test_a_call_that_is_interrupted_before_it_begins(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread()

    async def answer() -> int:
        return 42

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    if begun:
        assert thread.run(answer()) == 42
    monkeypatch.setattr(thread, "_begin", interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.run(answer())
    thread.stop()


def test_a_result_that_an_interrupted_caller_never_saw_is_handed_back() -> None:
    thread = LoopThread()
    results: Queue[str] = Queue()

    async def stubborn() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "messages"

    with pytest.raises(KeyboardInterrupt):
        thread.run(stubborn(), results.put)
    assert results.get(timeout=10) == "messages"
    thread.stop()


def test_an_interrupted_claim_holds_nothing(broker: blocking.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes when the messages are claimed already, and nobody has seen them."""
    broker.create_queue("orders")
    broker.publish("orders", b"a")
    claim = broker._broker.claim

    async def claim_and_interrupt(*arguments: Any, **more: Any) -> Any:
        claimed = await claim(*arguments, **more)
        os.kill(os.getpid(), signal.SIGINT)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return claimed

    monkeypatch.setattr(broker._broker, "claim", claim_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        broker.claim("orders")
    monkeypatch.undo()
    (message,) = broker.claim("orders", wait=10)
    assert message.receives == 1


def test_a_program_that_closes_nothing_ends_well(sqlite_url: str) -> None:
    program = "import sys, rowlock; broker = rowlock.blocking.open(sys.argv[1]).open(); print(broker.queues())"
    command = [sys.executable, "-c", program, sqlite_url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[]\n", "")
