"""Not the ledger: a broker process that cannot even begin, once it has been killed."""

import sys

import msgspec

from rowlock.simulate.host import Spec

if msgspec.json.decode(sys.argv[1], type=Spec).life > 1:
    sys.exit("no, not again")
