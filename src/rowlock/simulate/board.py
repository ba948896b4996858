"""The live table: every broker process, the totals and their rates, and the faults as they happen.

Without a terminal it is plain lines: faults when they happen, and the totals every other second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rowlock.simulate.fleet import BrokerProcess
from rowlock.simulate.host import Progress

LATEST_COUNT = 8
PLAIN_SECONDS = 2.0
RATE_SECONDS = 2.0
REFRESHES_PER_SECOND = 5

ALIVE = Text("● alive", "green")
STOPPED = Text("◌ stopped", "yellow")
DEAD = Text("✕ killed", "bold red")


class Board:
    """What a run looks like while it goes on. Silent where a machine reads the outcome."""

    def __init__(self, console: Console, seconds: float, title: str, *, silent: bool):
        self._console = console
        self._seconds = seconds
        self._title = title
        self._silent = silent
        self._began = time.monotonic()
        self._brokers: Sequence[BrokerProcess] = ()
        self._latest: deque[tuple[float, str]] = deque(maxlen=LATEST_COUNT)
        self._samples: deque[tuple[float, Progress]] = deque()
        self._stage = "starting"
        self._plain_at = 0.0
        self._live = Live(console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True)

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._live.stop()

    @property
    def _is_live(self) -> bool:
        return not self._silent and self._console.is_terminal

    def watch(self, brokers: Sequence[BrokerProcess]) -> None:
        self._brokers = brokers
        self._began = time.monotonic()

    def stage(self, text: str) -> None:
        self._stage = text
        self.tell(text)

    def tell(self, text: str) -> None:
        """Something happened."""
        now = time.monotonic() - self._began
        self._latest.append((now, text))
        if not self._silent and not self._is_live:
            self._console.print(f"{now:6.1f} s  {text}", highlight=False)

    def refresh(self) -> None:
        total = self._total()
        now = time.monotonic()
        self._samples.append((now, total))
        while self._samples[0][0] < now - RATE_SECONDS:
            self._samples.popleft()
        if self._is_live:
            self._live.update(self._picture(total))
        elif not self._silent and now >= self._plain_at:
            self._plain_at = now + PLAIN_SECONDS
            rates = " ".join(
                f"{name} {getattr(total, name):,} ({self._rate(name):,.0f}/s)"
                for name in ("published", "claimed", "settled")
            )
            self._console.print(f"{now - self._began:6.1f} s  {rates}", highlight=False)

    def _total(self) -> Progress:
        all_progress = [broker.progress for broker in self._brokers]
        return Progress(
            *(sum(getattr(progress, name) for progress in all_progress) for name in Progress.__struct_fields__)
        )

    def _rate(self, name: str) -> float:
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        gain: int = getattr(last, name) - getattr(first, name)
        return gain / max(ended - began, 0.1)

    def _picture(self, total: Progress) -> Group:
        elapsed = time.monotonic() - self._began
        bar = ProgressBar(total=self._seconds, completed=min(elapsed, self._seconds), width=40)
        head = Table.grid(padding=(0, 2))
        head.add_row(Text(self._title, "bold"), bar, Text(f"{elapsed:.0f} s"), Text(self._stage, "cyan"))
        return Group(head, self._table(total), self._happenings())

    def _table(self, total: Progress) -> Table:
        table = Table(expand=False)
        table.add_column("broker process")
        table.add_column("producers + consumers", justify="center")
        table.add_column("state", width=10)
        for name in ("lives", "published", "claimed", "settled", "consumers died", "stalled"):
            table.add_column(name, justify="right")
        for broker in self._brokers:
            progress = broker.progress
            state = STOPPED if broker.stopped else ALIVE if broker.alive else DEAD
            spec = broker.spec
            clients = f"{len(spec.producers)} + {len(spec.consumers)}"
            style = "dim" if broker.stopped else ""
            table.add_row(str(spec.number), clients, state, str(spec.life), *_numbers(progress), style=style)
        table.add_section()
        table.add_row("all", "", "", "", *_numbers(total), style="bold")
        rates = (f"{self._rate(name):,.0f}" for name in ("published", "claimed", "settled"))
        table.add_row("per second", "", "", "", *rates, style="cyan")
        return table

    def _happenings(self) -> Panel:
        lines = [f"[dim]{when:6.1f} s[/]  {text}" for when, text in self._latest]
        lines += [""] * (LATEST_COUNT - len(lines))
        return Panel("\n".join(lines), title="what happens", title_align="left", width=80)


def _numbers(progress: Progress) -> list[str]:
    return [f"{getattr(progress, name):,}" for name in Progress.__struct_fields__]
