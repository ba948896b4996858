"""The store on PostgreSQL, through asyncpg."""

from rowlock.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
