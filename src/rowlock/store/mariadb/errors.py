"""One table from the error numbers of MariaDB, MySQL and the driver to our faults."""

from __future__ import annotations

from rowlock.store.faults import Contended, Full, Lost, Misuse, Rejected, StoreFault

# A lock race, or a row that is not as it was (1062: it is there already; 1242: what a fence of writes.sql raises).
_CONTENDED = {
    1020: "the record has changed since it was read",
    1062: "a row with this key exists",
    1205: "lock wait timeout",
    1213: "deadlock, or a conflict that a cluster found",
    1242: "a fence: another row count than expected",
    1412: "the table definition has changed",
    1637: "too many active transactions",
    1689: "lock wait aborted",
    3101: "rolled back during COMMIT by a group replication",
    3572: "a lock was not free",
}

# The connection is gone, or is of no use until a server takes writes again.
_LOST = {
    0: "the driver is not connected",
    1037: "the server is out of memory",
    1040: "too many connections",
    1041: "the server is out of resources",
    1042: "bad host",
    1043: "bad handshake",
    1047: "the cluster's node is not ready",
    1053: "server shutdown in progress",
    1077: "normal shutdown",
    1078: "the server got a signal",
    1079: "shutdown complete",
    1080: "the server closes the connection",
    1129: "the host is blocked",
    1135: "no thread could be made",
    1152: "aborted connection",
    1154: "pipe error",
    1155: "packets out of order",
    1156: "packet could not be uncompressed",
    1157: "read error",
    1158: "network read error",
    1159: "network read interrupted",
    1160: "network write error",
    1161: "network write interrupted",
    1180: "an error during COMMIT",
    1181: "an error during ROLLBACK",
    1184: "aborted connection",
    1203: "too many connections of this user",
    1226: "a resource limit of this user",
    1290: "the server is read-only",
    1317: "the statement was interrupted",
    1792: "a read-only transaction",
    1836: "the server is read-only",
    1927: "the connection was killed",
    1969: "the statement took too long",
    3024: "the statement took too long",
    3032: "the server is in offline mode",
    3168: "the server is not available",
    4031: "the server ended an idle connection",
}
DRIVER = range(2000, 2100)
"""The driver's own numbers: cannot connect, gone away, out of sync, malformed packet. The socket is of no use then."""

_FULL = {
    1004: "a file could not be made",
    1016: "a file could not be opened",
    1021: "disk full",
    1023: "a file could not be closed",
    1024: "a file could not be read",
    1026: "a file could not be written",
    1030: "an error of the storage engine",
    1034: "a damaged key file",
    1036: "the table is read-only",
    1038: "out of memory for sorting",
    1114: "the table is full",
    1194: "the table is marked as crashed",
    1195: "the table is marked as crashed",
    1206: "no memory for more locks",
    1712: "a damaged index",
    1878: "a temporary file could not be written",
}

_REJECTED = {
    1048: "a value may not be NULL",
    1118: "the row is too large",
    1153: "the packet is too large",
    1162: "the string is too long",
    1197: "the transaction is too large for the binary log's cache",
    1264: "out of range",
    1265: "truncated",
    1292: "not a value of this type",
    1300: "not a text of this character set",
    1301: "the result is too large",
    1366: "not a value of this type",
    1367: "not a value of this type",
    1406: "too long for its column",
    1690: "out of range",
    3140: "not JSON",
    3819: "a check failed",
    4025: "a check failed",
}

DUPLICATE = 1062
FENCED = 1242

FAULTS: dict[int, type[StoreFault]] = {
    **dict.fromkeys(_CONTENDED, Contended),
    **dict.fromkeys([*_LOST, *DRIVER], Lost),
    **dict.fromkeys(_FULL, Full),
    **dict.fromkeys(_REJECTED, Rejected),
}

_CLASSES: dict[str, type[StoreFault]] = {"08": Lost, "22": Rejected, "23": Rejected, "40": Contended}
"""Of SQLSTATE, for numbers that no table knows."""


def fault_class(number: int, state: str | None) -> type[StoreFault]:
    """The class of a server's or the driver's error. What nobody knows is `Misuse`: never tried again."""
    return FAULTS.get(number) or _CLASSES.get((state or "")[:2], Misuse)


def fault(number: int, state: str | None, message: str, *, committing: bool) -> StoreFault:
    text = f"{message} (error {number})"
    kind = fault_class(number, state)
    return Lost(text, committing=committing) if kind is Lost else kind(text)


def number_of(fault: StoreFault) -> int:
    """The error number that a fault came from, 0 where there was none."""
    arguments = fault.__cause__.args if fault.__cause__ else ()
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0
