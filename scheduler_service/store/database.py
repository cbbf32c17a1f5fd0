"""Opens the SQLite file of the truth: schema by version, write-ahead log, damage moved aside and told.

Rule: nothing here knows what a row means.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler_service.errors import BackendError, ConfigurationError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE groups (key TEXT PRIMARY KEY, owner TEXT NOT NULL, over INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE idempotency (owner TEXT NOT NULL, key TEXT NOT NULL, group_key TEXT NOT NULL, at INTEGER NOT NULL,
                              PRIMARY KEY (owner, key));
    CREATE TABLE audit (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, user TEXT NOT NULL, action TEXT NOT NULL,
                        object TEXT NOT NULL, facts TEXT NOT NULL);
    CREATE TABLE cycles (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
    """,
    """
    CREATE TABLE books (began_at INTEGER NOT NULL, lost INTEGER NOT NULL, note TEXT NOT NULL);
    CREATE TABLE ended_unknown (incarnation TEXT PRIMARY KEY, at INTEGER NOT NULL, pod TEXT NOT NULL,
                                why TEXT NOT NULL);
    """,
    """
    CREATE TABLE overlays (id INTEGER PRIMARY KEY, ended INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE use_lately (at INTEGER PRIMARY KEY, body BLOB NOT NULL);
    """,
)
"""Step i brings version i to i + 1. Steps are only ever added."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database, and the sentence to tell if the file before it was damaged."""

    connection: sqlite3.Connection
    note: str | None
    is_new: bool = False
    """Whether there was no file, or a damaged one."""


def open_database(path: Path, migrations: tuple[str, ...] = MIGRATIONS) -> Opened:
    """Return the database in `path`, made if absent. A damaged file is moved aside and a new one begun."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_new = not path.exists() or path.stat().st_size == 0
    try:
        return Opened(_connect(path, migrations), None, is_new=is_new)
    except sqlite3.DatabaseError as error:
        if _is_full(error):
            raise disk_full(path, error) from error
        if not _is_damage(error):
            raise BackendError(
                f"The state file {path} can not be opened.",
                why=f"SQLite says: {error}.",
                hint="See that no other service uses this state directory and that it is writable.",
            ) from error
    aside = _move_aside(path)
    note = f"The state file was damaged; it was moved to {aside} and a new one begun."
    return Opened(_connect(path, migrations), note, is_new=True)


def _connect(path: Path, migrations: tuple[str, ...]) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA busy_timeout=5000")
        _check_whole(connection)
        _migrate(connection, migrations, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_whole(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("the file is malformed")


def _migrate(connection: sqlite3.Connection, migrations: tuple[str, ...], path: Path) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(migrations):
        raise ConfigurationError(
            f"The state file {path} is of a newer version ({version}) than this program ({len(migrations)}).",
            hint="Use the newer kai-jupyter, or another state directory (KAI_STATE_DIR).",
        )
    for number, step in enumerate(migrations[version:], start=version + 1):
        connection.executescript(f"BEGIN;{step};PRAGMA user_version={number};COMMIT;")


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", None) in {
        None,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _move_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.time_ns() // 1_000_000}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside


def disk_full(path: Path, error: Exception) -> BackendError:
    """Return the sentence for a disk with no room left."""
    return BackendError(
        f"The disk of {path.parent} is full; nothing was changed.",
        why=f"The system says: {error}.",
        hint="Free some space there and try again.",
    )


@contextmanager
def writing(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run a block as one transaction: all of it is kept, or nothing. A full disk is told as such."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _roll_back(connection)
        if _is_full(error):
            raise disk_full(path, error) from error
        raise BackendError(
            f"The state in {path} can not be written.", why=f"SQLite says: {error}."
        ) from error
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
