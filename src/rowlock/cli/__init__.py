"""The command line: `rowlock`. Each module is one command or one group of commands, named as they are.

options   what many commands share: the store, durations, times
settings  the settings of queues, topics and subscriptions as options
output    tables, JSON, sentences
running   opening a broker for one command, and what a failure looks like
"""

from rowlock.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    app()
