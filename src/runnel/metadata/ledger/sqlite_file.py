"""The file behind the SQLite ledger: its schema, how it is opened, and what its errors mean to a caller."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from runnel.errors import Corrupt, Refused, RunnelError, Unavailable, Uncertain

VERSION = 1
APPLICATION_ID = 0x52_4E_4C_31  # "RNL1": SQLite files carry a number that says whose they are

PLACE_BITS = 46
"""A row's key is shard << 46 | position: 70 trillion positions for each of 131,072 shards in SQLite's 63 bits."""

BUSY_S = 10.0
"""Another process may hold the write lock this long before an append is `Unavailable`."""

SCHEMA = """
CREATE TABLE version (version INTEGER NOT NULL);
CREATE TABLE entries (key INTEGER PRIMARY KEY, sum INTEGER NOT NULL, entry BLOB NOT NULL);
CREATE TABLE trims (shard INTEGER PRIMARY KEY, upto INTEGER NOT NULL);
"""


def open_file(path: Path) -> sqlite3.Connection:
    """A connection that is durable at every commit; makes the file when there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise Refused(f"ledger file {path} cannot be opened ({error}): check that its directory is writable") from error
    try:
        with translated(path, "open"):
            _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise Refused(f"ledger file {path} cannot have a write-ahead journal here: put it on a local disk")
    connection.execute("PRAGMA synchronous=FULL")
    if _number(connection, "PRAGMA application_id") == APPLICATION_ID:
        _check_version(connection, path)
        return
    with transaction(connection):
        if _number(connection, "PRAGMA application_id") != APPLICATION_ID:  # another process may have been faster
            if _number(connection, "SELECT count(*) FROM sqlite_schema"):
                raise Refused(f"file {path} is a database of something else: name another file for the ledger")
            for statement in SCHEMA.strip().split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO version VALUES (?)", (VERSION,))
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    _check_version(connection, path)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version = _number(connection, "SELECT max(version) FROM version")
    if version > VERSION:
        raise Refused(f"ledger file {path} is of version {version}, this runnel knows up to {VERSION}: upgrade runnel")


def _number(connection: sqlite3.Connection, question: str) -> int:
    return int(connection.execute(question).fetchone()[0])


class _CommitFailed(sqlite3.OperationalError):
    """The disk failed while a commit was being written."""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, holding the file's only write lock from the beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if _kind(error) == sqlite3.SQLITE_IOERR:
                # The commit may be in the journal though it could not be synced: after a crash it may come back.
                raise _CommitFailed(str(error)) from error
            raise
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """SQLite's errors in the words of the house."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path, doing) from error


def _translate(error: sqlite3.Error, path: Path, doing: str) -> RunnelError:
    if isinstance(error, _CommitFailed):
        return Uncertain(f"ledger file {path} could not be synced ({error}): check the disk")
    match _kind(error):
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Corrupt(
                f"ledger file {path} is damaged ({error}): stop every process that uses it, keep a copy of it and of its "
                f"-wal file, then restore a backup or run sqlite3 {path} .recover"
            )
        case sqlite3.SQLITE_FULL:
            return Unavailable(f"disk is full, cannot {doing} ledger file {path}: free some space")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"ledger file {path} was locked by another process for {BUSY_S:.0f} s")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM if doing == "open":
            return Refused(
                f"ledger file {path} cannot be opened ({error}): check that it and its directory are writable"
            )
        case _:
            return Unavailable(f"cannot {doing} ledger file {path}: {error}")


def _kind(error: sqlite3.Error) -> int:
    """SQLite's extended codes carry the plain one in their last byte."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def check_sum(shard: int, position: int, entry: bytes) -> int:
    """Covers the place as well, so that a right entry at a wrong position is noticed."""
    return crc32c(entry, crc32c(b"%d/%d" % (shard, position)))
