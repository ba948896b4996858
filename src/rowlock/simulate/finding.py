"""What a judge found."""

from __future__ import annotations

from msgspec import Struct, field


class Finding(Struct):
    """How much was looked at, and what must not be."""

    checked: int = 0
    violations: list[str] = field(default_factory=list)

    def accuse(self, sentence: str) -> None:
        self.violations.append(sentence)
