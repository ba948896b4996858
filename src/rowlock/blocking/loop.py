"""An event loop in a thread of its own, on which other threads run coroutines and wait for what becomes of them."""

from __future__ import annotations

import asyncio
import atexit
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rowlock.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """It is started by the first call, and stopped at the end of the program where nobody does so before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def run(self, coroutine: Coroutine[Any, Any, T], abandoned: Callable[[T], object] | None = None) -> T:
        """The coroutine's result.

        A caller that is interrupted (Ctrl-C) cancels it; `abandoned` takes the result that it had reached all the same.
        """
        call = _Call(coroutine)
        try:
            self._begin(call)
            return call.outcome.result()
        except BaseException:
            if not call.outcome.done():
                self._interrupt(call, abandoned)
            raise

    def _begin(self, call: _Call[Any]) -> None:
        with self._lock:
            if self._loop is None and not self._stopped:
                self._start()
            # In a process that was forked from the one that opened the broker, the thread is not alive.
            if self._loop is None or self._stopped or not self._thread.is_alive():
                call.refuse(Closed("The broker was closed, or this process was forked from the one that opened it."))
            else:
                self._loop.call_soon_threadsafe(call.start)

    def _start(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rowlock", daemon=True)
        self._thread.start()
        # A daemon thread that still runs while the interpreter is taken apart may crash it.
        atexit.register(self.stop)

    def _interrupt(self, call: _Call[T], abandoned: Callable[[T], object] | None) -> None:
        if self._loop is None:
            call.cancel()
            return
        self._loop.call_soon_threadsafe(call.cancel)
        wait([call.outcome])
        if abandoned is not None and call.outcome.exception() is None:
            self._loop.call_soon_threadsafe(abandoned, call.outcome.result())

    def stop(self) -> None:
        """End the thread; calls that are still under way raise Closed. It may be called again."""
        with self._lock:
            stopped, self._stopped = self._stopped, True
        if self._loop is None or stopped:
            return
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        atexit.unregister(self.stop)


class _Call(Generic[T]):
    """One coroutine on its way: begun and cancelled on the loop, awaited by another thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.outcome: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self.refuse(Closed("The call was interrupted before it began."))

    def refuse(self, error: Exception) -> None:
        self._coroutine.close()
        self.outcome.set_exception(error)

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(Closed("The broker was closed while the call was under way."))
        elif error := task.exception():
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
