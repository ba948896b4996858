"""The specification of a store, as tests: a dialect binds it by a class with one fixture, `new_store`.

    class TestThis(StoreConformance):
        @pytest.fixture
        def new_store(self, address): return lambda: ThisStore(address)

where `address` names a database that is empty at the start of each test.
"""

from __future__ import annotations

from .attempts import Attempts
from .background import Background
from .catalog import Catalog
from .contention import Contention
from .opening import Opening
from .reading import Reading
from .transactions import Transactions
from .turns import Turns


class StoreConformance(Opening, Transactions, Turns, Contention, Reading, Background, Attempts, Catalog):
    """Everything that a store must do."""
