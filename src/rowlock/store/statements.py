"""Named SQL statements, read from the .sql files beside a dialect's module.

A statement begins with a line `-- name: some_name`; other comment lines before the SQL say why it is as it is.
`{name}` placeholders are filled in once, with table prefixes that come from lane numbers, never from callers.
"""

from __future__ import annotations

from importlib.resources import files


def load(package: str, file: str, **names: str) -> dict[str, str]:
    """Statements of one file by name."""
    text = (files(package) / file).read_text("utf-8")
    statements: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, sql = block.partition("\n")
        for placeholder, value in names.items():
            sql = sql.replace("{" + placeholder + "}", value)
        sql = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
        statements[name.strip()] = sql.strip().removesuffix(";")
    return statements
