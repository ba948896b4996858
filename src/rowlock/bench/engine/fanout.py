"""Publishing to a topic with ten subscriptions, against one."""

from __future__ import annotations

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import Step, compare, loop
from rowlock.embedded import Broker

BATCH = 100
SUBSCRIPTIONS = 10


async def run(ground: Ground) -> dict[str, Finding]:
    findings = {}
    async with ground.broker() as broker:
        for topic, count in (("narrow", 1), ("wide", SUBSCRIPTIONS)):
            await broker.create_topic(topic)
            for number in range(count):
                await broker.create_subscription(f"{topic}-{number}", topic)
        for name, size in SIZES.items():
            bodies = bodies_of(size, BATCH)

            wide, narrow = loop(_publish(broker, "wide", bodies)), loop(_publish(broker, "narrow", bodies))
            what = f"{SUBSCRIPTIONS} subscriptions, batches of {BATCH} x {size} B"
            findings[f"fanout_10_{name}"] = await compare(ground, wide, narrow, what, "one subscription")
    return findings


def _publish(broker: Broker, topic: str, bodies: list[bytes]) -> Step:
    async def publish(_: int) -> int:
        return len(await broker.publish(topic, bodies))

    return publish


BENCH = Bench("fan-out", per_size("fanout_10", ">= 0.9", "x messages/s"), run)
