"""`python -m rowlock.bench`: the benchmark without the command line around it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rowlock.bench.main import BenchOptions, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rowlock.bench", description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--store", default="postgresql")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--name", help="only measures whose name contains this")
    return run(BenchOptions(**vars(parser.parse_args())))


sys.exit(main())
