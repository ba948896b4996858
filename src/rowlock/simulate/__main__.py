"""`python -m rowlock.simulate`: the simulation without the command line around it."""

from __future__ import annotations

import argparse
import sys

from rowlock.errors import RowlockError
from rowlock.simulate.main import run
from rowlock.simulate.options import SimulateOptions


def main() -> int:
    defaults = SimulateOptions()
    parser = argparse.ArgumentParser(prog="python -m rowlock.simulate", description=run.__doc__)
    parser.add_argument("--producers", type=int, default=defaults.producers)
    parser.add_argument("--consumers", type=int, default=defaults.consumers)
    parser.add_argument("--seconds", type=float, default=defaults.seconds)
    parser.add_argument("--store", default=defaults.store)
    parser.add_argument("--faults", default=defaults.faults)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int)
    try:
        return run(SimulateOptions(**vars(parser.parse_args())))
    except RowlockError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
