"""`rowlock send`, `receive`, `settle`, `extend`, `release` and `seek`."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import limits

if TYPE_CHECKING:
    from tests.cli.conftest import Rowlock


@pytest.fixture
def queue(rowlock: Rowlock) -> Rowlock:
    rowlock("queue", "create", "orders")
    return rowlock


def bodies(rowlock: Rowlock, *options: str) -> list[str]:
    return [one["body"] for one in rowlock.json("receive", "orders", "--max", "1000", *options)]


def test_send_texts(queue: Rowlock) -> None:
    sent = queue.json("send", "orders", "a", "b", "")
    assert (sent["name"], sent["published"], sent["duplicates"]) == ("orders", 3, 0)
    assert [set(one) for one in sent["messages"]] == [{"id", "partition", "sequence", "duplicate"}] * 3
    assert bodies(queue) == ["a", "b", ""]
    assert queue("send", "orders", "c").stdout == "✓ 1 message stored in orders.\n"


def test_send_with_everything(queue: Rowlock) -> None:
    queue("send", "orders", "a", "--key", "k", "-a", "kind=new", "-a", "of=x=y", "--expires-in", "1h")
    (message,) = queue.json("receive", "orders")
    assert (message["key"], message["attributes"]) == ("k", {"kind": "new", "of": "x=y"})
    assert message["expires_at"] is not None


def test_send_for_later(queue: Rowlock) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    queue("send", "orders", "a", "--delay", "1h")
    queue("send", "orders", "b", "--due", tomorrow.isoformat())
    queue("send", "orders", "c", "--due", tomorrow.astimezone().replace(tzinfo=None).isoformat())
    depth = queue.json("queue", "show", "orders")["depth"]
    assert (depth["ready"], depth["delayed"]) == (0, 3)


def test_send_lines_of_standard_input(queue: Rowlock) -> None:
    queue("send", "orders", stdin="a\n\nb\nc")
    assert bodies(queue) == ["a", "", "b", "c"]


def test_send_lines_of_a_file(queue: Rowlock, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{number}\n" for number in range(2500)))
    assert queue("send", "orders", "--file", str(file)).stdout == "✓ 2,500 messages stored in orders.\n"
    assert queue.json("queue", "show", "orders")["depth"]["ready"] == 2500
    assert bodies(queue)[:3] == ["0", "1", "2"]


def test_send_a_whole_file(queue: Rowlock, tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_bytes(b"\xff\n\x00\n")
    queue("send", "orders", "--whole", "--file", str(file))
    (message,) = queue.json("receive", "orders")
    assert (base64.b64decode(message["body"]), message["encoding"]) == (b"\xff\n\x00\n", "base64")


def test_what_comes_slowly_is_sent_at_once(queue: Rowlock) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", "from rowlock.cli import main; main()", "send", "orders", "--store", queue.store]
    with subprocess.Popen(command, stdin=reading) as process:
        os.close(reading)
        os.write(writing, b"a\n")
        assert bodies(queue, "--wait", "20s") == ["a"]
        os.close(writing)
    assert process.returncode == 0


def test_a_line_that_is_too_long(queue: Rowlock) -> None:
    refused = queue.refusal("send", "orders", stdin="x" * (limits.MESSAGE_MAX_BYTES + 1))
    assert refused == "A line is longer than the largest message, 1048576 bytes."


def test_a_deduplication_id(queue: Rowlock) -> None:
    queue("send", "orders", "a", "--deduplication-id", "1")
    assert queue.json("send", "orders", "--deduplication-id", "1", stdin="b\n")["duplicates"] == 1
    assert "for one" in queue.misuse("send", "orders", "a", "b", "--deduplication-id", "2")
    assert "for one" in queue.misuse("send", "orders", "--deduplication-id", "2", stdin="a\nb\n")
    assert bodies(queue) == ["a"]


def test_a_refused_message_is_named_and_the_others_are_stored(queue: Rowlock) -> None:
    refused = queue.refusal("send", "orders", stdin=f"a\n{'x' * 5000}\nb\n")
    assert refused.startswith("Message 2 was refused: The message has 5000 bytes")
    assert refused.endswith("2 messages before and beside it are stored.")
    assert bodies(queue) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["orders", "a", "--attribute", "kind"], "'kind' is no attribute: write name=value."),
        (["orders", "a", "-a", "k=1", "-a", "k=2"], "The attribute 'k' is given twice."),
        (["orders", "a", "--file", "nowhere"], "file 'nowhere' does not exist."),
        (["orders", "a", "--whole"], "and not both"),
        (["orders", "a", "--due", "tomorrow"], "'tomorrow' is no time"),
    ],
)
def test_send_is_used_wrongly(queue: Rowlock, arguments: list[str], says: str) -> None:
    assert says in queue.misuse("send", *arguments)
    assert bodies(queue) == []


def test_receive_prints_bodies_and_receipts(queue: Rowlock) -> None:
    queue("send", "orders", "a", "b", "--key", "k", "-a", "kind=new")
    received = queue("receive", "orders", "-n", "2")
    assert received.stdout == "a\nb\n"
    first, second = received.stderr.splitlines()
    assert "  key k  receives 1  kind=new  receipt " in first
    queue("settle", first.split()[-1], second.split()[-1])
    assert queue.json("queue", "show", "orders")["depth"]["total"] == 0


def test_receive_and_settle_at_once(queue: Rowlock) -> None:
    queue("send", "orders", "a")
    received = queue("receive", "orders", "--settle")
    assert received.stdout == "a\n"
    assert "receipt" not in received.stderr
    assert queue.json("queue", "show", "orders")["depth"]["total"] == 0
    assert queue("receive", "orders").stderr == "No message is there in orders.\n"
    assert queue("receive", "orders", "--wait", "50ms").stderr == "No message came to orders in time.\n"


def test_received_json(queue: Rowlock) -> None:
    queue("send", "orders", "a")
    (message,) = queue.json("receive", "orders", "--visibility-timeout", "0")
    about = {"id", "key", "attributes", "receives", "sequence", "origin", "receipt"}
    assert set(message) == about | {"body", "encoding", "accepted_at", "published_at", "expires_at"}
    assert (message["body"], message["encoding"], message["receives"]) == ("a", "utf-8", 1)
    assert queue.json("receive", "orders")[0]["receives"] == 2


def received(rowlock: Rowlock) -> Any:
    rowlock("send", "orders", "a")
    return rowlock.json("receive", "orders")[0]["receipt"]


def test_settle(queue: Rowlock) -> None:
    receipt = received(queue)
    assert queue.json("settle", receipt) == {"settled": 1}
    assert queue.json("settle", "-", stdin=f"{receipt}\n\n") == {"settled": 1}


def test_extend_and_release(queue: Rowlock) -> None:
    receipt = received(queue)
    assert queue("extend", receipt, "--for", "5m").stdout == "✓ 1 message extended for 5 min.\n"
    assert queue.json("release", receipt, "--delay", "0") == {"released": 1}
    assert "not valid any more" in queue.refusal("release", receipt)
    assert queue.json("receive", "orders")[0]["receives"] == 2


def test_receipts_that_are_none(queue: Rowlock) -> None:
    assert queue.refusal("settle", "abc") == "'abc' is not a receipt."
    assert "no receipt" in queue.misuse("settle", "-", stdin="")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--max", "0"], "max_messages is 0: it must be a whole number from 1 to 1000."),
        (["--max", "1001"], "max_messages is 1001"),
        (["--wait", "21"], "wait is 21: it must be from 0 to 20 seconds."),
        (["--visibility-timeout", "13h"], "visibility_timeout is 46800: it must be from 0 to 43200 seconds."),
    ],
)
def test_receive_is_refused(queue: Rowlock, arguments: list[str], says: str) -> None:
    assert says in queue.refusal("receive", "orders", *arguments)


def test_seek(queue: Rowlock) -> None:
    queue("send", "orders", "a", "b", "c")
    queue("receive", "orders", "-n", "3", "--settle")
    assert queue.json("seek", "orders", "2") == {"subscription": "orders", "partitions": [{"partition": 0, "next": 2}]}
    assert bodies(queue) == ["b", "c"]
    assert queue.json("seek", "orders", "latest")["partitions"][0]["next"] == 4
    assert queue.json("seek", "orders", "2001-01-01T00:00:00Z")["partitions"][0]["next"] == 1
    assert "Next sequence" in queue("seek", "orders", "earliest", "--partition", "0").stdout
    assert bodies(queue) == ["a", "b", "c"]
    assert "'yesterday' is no place to seek to" in queue.misuse("seek", "orders", "yesterday")
