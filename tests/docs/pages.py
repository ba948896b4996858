"""The documents of the repository, and their code blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of code."""

    page: Path
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def blocks(*languages: str) -> list[Block]:
    """All code blocks, or those in these languages."""
    found = [
        Block(page, number, language, text)
        for page in PAGES
        for number, (language, text) in enumerate(FENCE.findall(page.read_text("utf-8")), 1)
    ]
    return [block for block in found if not languages or block.language in languages]
