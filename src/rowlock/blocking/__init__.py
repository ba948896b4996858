"""The library without async: the same broker, the same verbs, for threads.

    with rowlock.blocking.open("sqlite:///orders.db") as broker:
        broker.create_queue("orders")
        broker.publish("orders", b"...")
        for message in broker.claim("orders", wait=20):
            message.settle()

A broker may be used by many threads at once: what they ask for meanwhile shares a transaction.
"""

from rowlock.blocking.broker import Broker, ClaimedMessage, open

__all__ = ["Broker", "ClaimedMessage", "open"]
