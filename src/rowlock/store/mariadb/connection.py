"""One session on the server: statements in packets, transactions, deadlines, and what to do when it fails.

Several statements travel in one packet and so cost one round trip. The server stops at the first that fails: what
follows it in the packet, COMMIT included, is not run.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncmy
from asyncmy.constants import CLIENT
from asyncmy.errors import MySQLError

from rowlock import limits
from rowlock.store.faults import Lost, Rejected, StoreFault
from rowlock.store.mariadb.errors import DRIVER, fault
from rowlock.store.mariadb.server import VARIABLES, Server, server_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from rowlock.store.mariadb.address import Address
    from rowlock.store.port import Durability

CONNECT_SECONDS = 10.0
PACKET_MARGIN_BYTES = 1024
BEGIN = "START TRANSACTION"
COMMIT = "COMMIT"

_connect: Any = asyncmy.connect  # the driver's functions have no types


class Answer(NamedTuple):
    """What one statement gave."""

    rows: tuple[tuple[Any, ...], ...]
    affected: int


class Connection:
    """Used by one task at a time. Closed after `Lost`, and when its task was cancelled in a packet."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._transport = driver._transport
        self._prepared: dict[str, Any] = {}
        self.in_transaction = False
        self.packet_bytes = 1 << 20
        self.bulk = False
        """Whether the server takes many rows as binary values in one command (MariaDB does)."""

    @property
    def alive(self) -> bool:
        return bool(self._driver.connected)

    async def run(self, *statements: str) -> list[Answer]:
        """Run statements, in one packet where they fit."""
        answers: list[Answer] = []
        for packet in packets(statements, self.packet_bytes):
            answers += await self._packet(packet)
        return answers

    async def rows(self, statement: str) -> tuple[tuple[Any, ...], ...]:
        (answer,) = await self._packet([statement])
        return answer.rows

    async def begin(self, *statements: str) -> list[Answer]:
        """Begin a transaction with these statements."""
        await self.rollback()  # BEGIN would commit what an earlier one left open
        self.in_transaction = True
        return (await self._or_undo(BEGIN, *statements))[1:]

    async def commit(self, *statements: str) -> list[Answer]:
        """Run statements and COMMIT."""
        answers = await self._or_undo(*statements, COMMIT)
        self.in_transaction = False
        return answers[:-1]

    async def transact(self, *statements: str) -> list[Answer]:
        """A whole transaction, in one round trip where it fits in one packet."""
        await self.rollback()
        self.in_transaction = True
        return (await self.commit(BEGIN, *statements))[1:]

    async def insert_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows by MariaDB's bulk command, inside a transaction. A round trip of its own."""
        self._require_alive()
        try:
            await self._guarded(self._insert_many(statement, rows))
        except StoreFault:
            await self._undo()
            raise

    async def rollback(self) -> None:
        if self.in_transaction:
            await self.run("ROLLBACK")
            self.in_transaction = False

    def drop(self) -> None:
        """End the socket at once. No KILL is sent: a COMMIT under way ends as it ends, and is looked up afterwards."""
        self.in_transaction = False
        self._driver.close()
        self._transport.abort()  # the driver's close() would go on to send what it has buffered

    async def _or_undo(self, *statements: str) -> list[Answer]:
        try:
            return await self.run(*statements)
        except StoreFault:
            await self._undo()
            raise

    async def _undo(self) -> None:
        """After an error the transaction is still open, with its locks: the server undid its last statement only."""
        try:
            await self.rollback()
        except Lost:
            return  # the connection is gone, and its transaction with it

    async def _packet(self, statements: Sequence[str]) -> list[Answer]:
        self._require_alive()
        answers: list[Answer] = []
        commits = statements[-1] == COMMIT
        await self._guarded(
            self._query(";".join(statements), answers), commits, lambda: len(answers) == len(statements) - 1
        )
        return answers

    def _require_alive(self) -> None:
        if not self.alive:
            raise Lost("the connection was closed")

    async def _query(self, text: str, answers: list[Answer]) -> None:
        driver = self._driver
        await driver.query(text.encode())
        answers.append(_answer(driver._result))
        while driver._result.has_next:
            await driver.next_result()
            answers.append(_answer(driver._result))

    async def _insert_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = await self._driver.prepare(statement)
        await prepared.execute_bulk(rows)

    async def _guarded(
        self, work: Awaitable[None], commits: bool = False, at_last: Callable[[], bool] = lambda: True
    ) -> None:
        """Wait for the server within the deadline; raise our faults; let no half-read connection live on."""
        try:
            async with asyncio.timeout(limits.CYCLE_DEADLINE_SECONDS):
                await work
        except MySQLError as error:
            raise self._fault(error, commits, at_last()) from error
        except Exception as error:  # the deadline, or a defect of the driver
            self.drop()
            raise Lost(f"no sound answer: {error!r}", committing=commits) from error
        except BaseException:
            self.drop()
            raise

    def _fault(self, error: MySQLError, commits: bool, at_last: bool) -> StoreFault:
        number, text, state = _facts(error)
        # A server that answers names by that the statement that failed: one before COMMIT, and COMMIT was not run.
        committing = commits and (at_last or number == 0 or number in DRIVER)
        found = fault(number, state, text, committing=committing)
        if isinstance(found, Lost):
            self.drop()
        return found


async def connect(address: Address, durability: Durability) -> Connection:
    """A session with its settings, on a server that is fit for this durability."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            driver = await _connect(
                user=address.user, password=address.password, host=address.host, port=address.port,
                database=address.database, unix_socket=address.unix_socket, charset="utf8mb4", autocommit=True,
                # FOUND_ROWS: an UPDATE counts the rows that it found, also one that was so already.
                client_flag=CLIENT.FOUND_ROWS,
            )  # fmt: skip
    except MySQLError as error:
        number, text, state = _facts(error)
        raise fault(number, state, f"cannot connect to {address}: {text}", committing=False) from error
    except (OSError, TimeoutError) as error:
        raise Lost(f"cannot connect to {address}: {error!r}") from error
    _use_keepalive(driver._transport.get_extra_info("socket"))
    connection = Connection(driver)
    try:
        await _prepare(connection, durability)
    except BaseException:
        connection.drop()
        raise
    return connection


async def _prepare(connection: Connection, durability: Durability) -> None:
    server = await read_server(connection)
    server.check(durability)
    connection.packet_bytes = server.max_allowed_packet - PACKET_MARGIN_BYTES
    connection.bulk = server.is_mariadb
    await connection.run(*server.settings())


async def read_server(connection: Connection) -> Server:
    return server_of((str(name), str(value)) for name, value in await connection.rows(VARIABLES))


def packets(statements: Iterable[str], limit_bytes: int) -> Iterator[list[str]]:
    """Statements in order, together where they fit."""
    packet: list[str] = []
    size = 0
    for one in statements:
        if len(one) > limit_bytes:
            raise Rejected(f"a statement of {len(one)} bytes exceeds the server's max_allowed_packet ({limit_bytes})")
        if packet and size + len(one) > limit_bytes:
            yield packet
            packet, size = [], 0
        packet.append(one)
        size += len(one) + 1
    if packet:
        yield packet


def _answer(result: Any) -> Answer:
    return Answer(result.rows or (), result.affected_rows)


def _facts(error: MySQLError) -> tuple[int, str, str | None]:
    """Number, message and SQLSTATE; the driver's own defects have no number."""
    arguments = [*error.args, "no message"]
    number = arguments[0] if isinstance(arguments[0], int) else 0
    return number, str(arguments[1]), getattr(error, "sqlstate", None)


def _use_keepalive(sock: socket.socket) -> None:
    """A machine that is gone without a word is noticed in some ten seconds, by both ends of the wire."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 3), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000)):
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
