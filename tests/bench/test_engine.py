"""Every benchmark of the engine runs, at a scale that says nothing, and finds a number for each of its aims."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rowlock.bench.engine import BENCHES
from rowlock.bench.ground import Ground, Scale
from rowlock.bench.measure import Bench
from rowlock.bench.profile import PHASES, WORKLOADS, profile
from rowlock.bench.servers import SERVERS, Server

TINY = Scale(
    slice_seconds=0.02,
    rounds=1,
    backlog_messages=5_000,
    in_flight_messages=1_200,
    queues=4,
    snapshot_seconds=0.75,
    idle_seconds=0.1,
    latency_messages=2,
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = SERVERS["postgresql" if request.param == "postgres" else request.param]()
    server.start()
    yield server
    server.close()


@pytest.fixture
def ground(server: Server) -> Iterator[Ground]:
    url = server.create_database()
    yield Ground(server, url, TINY)
    server.drop_database(url)


@pytest.mark.slow
@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.title)
async def test_every_aim_is_found(bench: Bench, ground: Ground) -> None:
    findings = await bench.run(ground)
    assert set(findings) == {aim.name for aim in bench.aims}
    for finding in findings.values():
        assert finding.scale
        if finding.reason is None:
            assert finding.value is not None
            assert finding.value >= 0


async def test_a_profile_divides_all_of_the_time(ground: Ground) -> None:
    found = await profile(ground, next(iter(WORKLOADS)), 0.05)
    assert sum(found.phases.values()) == pytest.approx(found.client_us)
    named = {phase: us for phase, us in found.phases.items() if phase in PHASES}
    assert all(us > 0 for us in named.values()), "a phase's functions have been renamed"
