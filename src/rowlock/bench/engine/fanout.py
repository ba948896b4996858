"""Publishing to a topic with ten subscriptions, against one."""

from __future__ import annotations

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import loop, ratio, take_turns

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

            async def publish(topic: str, bodies: list[bytes] = bodies) -> int:
                return len(await broker.publish(topic, bodies))

            sides = {
                "wide": loop(lambda _, publish=publish: publish("wide")),  # type: ignore[misc]
                "narrow": loop(lambda _, publish=publish: publish("narrow")),  # type: ignore[misc]
            }
            rates = await take_turns(sides, ground.scale.slice_seconds, ground.scale.rounds)
            scale = f"{SUBSCRIPTIONS} subscriptions, batches of {BATCH} x {size} B, {ground.rounds}; baseline: 1 subscription"
            findings[f"fanout_10_{name}"] = ratio(rates["wide"], rates["narrow"], scale)
    return findings


BENCH = Bench("fan-out", per_size("fanout_10", ">= 0.9", "x messages/s"), run)
