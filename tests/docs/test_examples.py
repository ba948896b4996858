"""Every code block of the documents does what it says, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .pages import ROOT, Block, blocks

if TYPE_CHECKING:
    from pathlib import Path

LANGUAGES = {"python", "sh", "make", "mermaid"}
DIAGRAMS = {"flowchart", "sequenceDiagram", "stateDiagram-v2"}
COMMAND = "from rowlock.cli import main; main()"
PRINTS = re.compile(r"print\(.*\)  # (.*)$", re.MULTILINE)
SECONDS = 30


def run(command: list[str], folder: Path) -> str:
    """What a command prints in an empty folder, where `rowlock` is this source tree's."""
    shim = folder / "bin/rowlock"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{COMMAND}" "$@"\n', "utf-8")
    shim.chmod(0o755)
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_prints_what_its_comments_say(block: Block, tmp_path: Path) -> None:
    printed = run([sys.executable, "-c", block.text], tmp_path)
    assert PRINTS.findall(block.text), "an example that shows nothing proves nothing"
    assert printed.splitlines() == [re.sub(r"  #.*", "", says) for says in PRINTS.findall(block.text)]


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_commands_succeed(block: Block, tmp_path: Path) -> None:
    assert run(["bash", "-euo", "pipefail", "-c", block.text], tmp_path)


@pytest.mark.parametrize("block", blocks("make"), ids=str)
def test_make_knows_the_targets(block: Block) -> None:
    for line in block.text.splitlines():
        target = line.split()[1]
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", blocks("mermaid"), ids=str)
def test_diagrams_are_of_a_kind_that_is_drawn(block: Block) -> None:
    assert block.text.split()[0] in DIAGRAMS
    assert block.text.count("[") == block.text.count("]")


def test_no_block_is_left_out() -> None:
    assert {block.language for block in blocks()} == LANGUAGES
