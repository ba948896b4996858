"""`rowlock bench`: run the benchmarks of an area on a server of their own, and report."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
from msgspec import Struct, structs
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rowlock.bench import engine
from rowlock.bench.eventloop import run_on_loop
from rowlock.bench.ground import FULL, QUICK, Ground, Scale
from rowlock.bench.measure import Bench, Finding, Measure, measure
from rowlock.bench.profile import WORKLOADS, Profile, as_tables, profile
from rowlock.bench.report import Report, as_table, commit, failed, machine
from rowlock.bench.servers import SERVERS, Server
from rowlock.errors import InvalidArgument

log = logging.getLogger("rowlock.bench")

AREAS: dict[str, list[Bench]] = {"engine": engine.BENCHES}
"""What `only` chooses from."""

QUICK_SECONDS = 160.0
"""A quick run begins nothing new after that, and cuts off what is under way."""
PROFILE_SLICES = 10
ALL_STORES = "all"


class BenchOptions(Struct, frozen=True, kw_only=True):
    """What the command line says."""

    only: str | None = None
    """One area; None: all."""
    quick: bool = False
    json: bool = False
    output: Path | None = None
    """Where the report is written as JSON, besides."""
    store: str = "postgresql"
    rounds: int | None = None
    """None: as the scale says."""
    profile: bool = False
    """Say where the time of a cycle goes, instead of measuring against anything."""
    name: str | None = None
    """Only benches with a measure whose name contains it."""


def run(options: BenchOptions) -> int:
    """Measure, print, and say by the exit code whether everything could be measured; a missed target is no failure."""
    benches, stores = _chosen(options)
    scale = QUICK if options.quick else FULL
    if options.rounds is not None:
        scale = structs.replace(scale, rounds=options.rounds)
    if options.profile:
        found = run_on_loop(_profile(stores, scale))
        _say(options, msgspec.json.encode(found), as_tables(found))
        return 0
    until = time.monotonic() + QUICK_SECONDS * len(stores) if options.quick else None
    report = run_on_loop(_measure(stores, benches, scale, until))
    _say(options, msgspec.json.encode(report), as_table(report))
    return 1 if failed(report.measures) else 0


def _say(options: BenchOptions, encoded: bytes, table: RenderableType) -> None:
    text = msgspec.json.format(encoded, indent=2) + b"\n"
    if options.output is not None:
        options.output.write_bytes(text)
    if options.json:
        sys.stdout.write(text.decode())
    else:
        Console().print(table)


def _chosen(options: BenchOptions) -> tuple[list[Bench], list[str]]:
    if options.only is not None and options.only not in AREAS:
        raise InvalidArgument(f"{options.only!r} is no area of the benchmark: choose one of {', '.join(AREAS)}.")
    if options.store != ALL_STORES and options.store not in SERVERS:
        known = ", ".join([*SERVERS, ALL_STORES])
        raise InvalidArgument(f"{options.store!r} is no store of the benchmark: choose one of {known}.")
    areas = [options.only] if options.only else list(AREAS)
    benches = [bench for area in areas for bench in AREAS[area]]
    if options.name is not None:
        benches = [bench for bench in benches if any(options.name in aim.name for aim in bench.aims)]
    return benches, list(SERVERS) if options.store == ALL_STORES else [options.store]


async def _measure(stores: Sequence[str], benches: Sequence[Bench], scale: Scale, until: float | None) -> Report:
    measures: list[Measure] = []
    versions: list[str] = []
    with ExitStack() as stack:
        progress = stack.enter_context(_progress())
        task = progress.add_task("", total=len(stores) * len(benches))
        for store in stores:
            server = SERVERS[store]()
            stack.callback(server.close)
            server.start()
            versions.append(server.version())
            prefix = "" if store == "postgresql" else f"{store}_"
            for bench in benches:
                progress.update(task, description=f"{store}: {bench.title}")
                findings = await _findings(server, bench, scale, until)
                measures += [measure(aim, findings[aim.name], prefix) for aim in bench.aims]
                progress.advance(task)
    return Report(commit(), machine(versions), measures)


async def _findings(server: Server, bench: Bench, scale: Scale, until: float | None) -> Mapping[str, Finding]:
    """What the bench finds; one that fails has no values, and says why."""
    seconds = None if until is None else until - time.monotonic()
    url = server.create_database()
    try:
        async with asyncio.timeout(seconds):
            return await bench.run(Ground(server, url, scale))
    except TimeoutError:
        reason = f"no time was left of the {QUICK_SECONDS:g} s of a quick run"
    except Exception as error:
        log.exception("The bench %r failed.", bench.title)
        reason = f"it failed: {error!r}"
    finally:
        server.drop_database(url)
    return {aim.name: Finding(value=None, reason=reason) for aim in bench.aims}


async def _profile(stores: Sequence[str], scale: Scale) -> list[Profile]:
    found: list[Profile] = []
    for store in stores:
        with closing(SERVERS[store]()) as server:
            server.start()
            for workload in WORKLOADS:
                ground = Ground(server, server.create_database(), scale)
                found.append(await profile(ground, workload, scale.slice_seconds * PROFILE_SLICES))
    return found


def _progress() -> Progress:
    """On standard error: standard output is the report's."""
    columns = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
