"""`rowlock redrive`: started and watched, left to others, listed, cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Rowlock


@pytest.fixture
def dead(rowlock: Rowlock) -> Rowlock:
    """A queue `orders` whose dead-letter queue holds three messages."""
    rowlock("queue", "create", "orders", "--max-receives", "1", "--dead-letter", "dead", "--visibility-timeout", "0")
    rowlock("send", "orders", "a", "b", "c")
    rowlock("receive", "orders", "--max", "3")
    (message,) = rowlock.json("receive", "dead", "--wait", "10s", "--visibility-timeout", "0")
    assert message["origin"]["source"] == "orders"
    return rowlock


def test_back_to_where_they_came_from(dead: Rowlock) -> None:
    done = dead.json("redrive", "start", "dead")
    assert set(done) == {
        "id", "source", "destination", "state", "moved", "to_move", "rate", "started_at", "problem",
    }  # fmt: skip
    assert (done["state"], done["moved"], done["to_move"], done["destination"]) == ("completed", 3, 3, None)
    assert len(dead.json("receive", "orders", "--max", "3")) == 3
    assert dead.json("redrive", "list") == dead.json("redrive", "list", "dead") == [done]
    assert dead.json("redrive", "watch", str(done["id"])) == done
    assert "where they came from" in dead("redrive", "list").stdout


def test_elsewhere(dead: Rowlock) -> None:
    dead("queue", "create", "other")
    assert "3 of 3 messages moved to other." in dead("redrive", "start", "dead", "--to", "other").stdout
    assert dead.json("queue", "show", "other")["depth"]["ready"] == 3


def test_cancel(dead: Rowlock) -> None:
    started = dead.json("redrive", "start", "dead", "--rate", "0.001", "--detach")
    assert started["state"] == "running"
    assert "is being redriven already" in dead.refusal("redrive", "start", "dead")
    assert dead.json("redrive", "cancel", str(started["id"]))["state"] == "cancelled"
    assert "cannot be cancelled" in dead.refusal("redrive", "cancel", str(started["id"]))
    assert dead.json("redrive", "watch", str(started["id"]), code=1)["state"] == "cancelled"


def test_refused(dead: Rowlock) -> None:
    assert "'nothing'" in dead.refusal("redrive", "start", "nothing")
    assert "'nothing'" in dead.refusal("redrive", "start", "dead", "--to", "nothing")
    assert "rate is 0.0: it must be more than 0" in dead.refusal("redrive", "start", "dead", "--rate", "0")
    assert "itself" in dead.refusal("redrive", "start", "dead", "--to", "dead")
    assert "There is no redrive with the id 99." in dead.refusal("redrive", "cancel", "99")
    assert "There is no redrive with the id 99." in dead.refusal("redrive", "watch", "99")
    assert dead.json("redrive", "list") == []
