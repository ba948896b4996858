"""The engine's benchmarks, one module for each kind of question."""

from rowlock.bench.engine import backlog, callers, fanout, flights, latency, processes, publish, snapshot, spread
from rowlock.bench.measure import Bench

BENCHES: list[Bench] = [
    publish.BENCH,
    *callers.BENCHES,
    spread.BENCH,
    fanout.BENCH,
    backlog.BENCH,
    flights.BENCH,
    processes.BENCH,
    latency.BENCH,
    *snapshot.BENCHES,
]
