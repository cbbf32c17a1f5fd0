"""The file of the truth: private, versioned, whole or moved aside; a write is all or nothing."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from scheduler_service.errors import BackendError, ConfigurationError
from scheduler_service.store.database import MIGRATIONS, open_database, writing


def test_private_and_of_the_newest_version(tmp_path: Path) -> None:
    path = tmp_path / "state" / "kai.db"
    opened = open_database(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert opened.note is None
    assert opened.connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert opened.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_later_steps_bring_an_older_file_up(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_database(path, ("CREATE TABLE a (x);",)).connection.close()
    both = ("CREATE TABLE a (x);", "CREATE TABLE b (y);")
    opened = open_database(path, both)
    opened.connection.execute("INSERT INTO b VALUES (1)")
    assert opened.connection.execute("SELECT count(*) FROM a").fetchone() == (0,)


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_database(path, ("CREATE TABLE a (x);", "CREATE TABLE b (y);")).connection.close()
    with pytest.raises(ConfigurationError, match="newer version"):
        open_database(path, ("CREATE TABLE a (x);",))
    assert [child.name for child in tmp_path.iterdir() if "damaged" in child.name] == []


def test_a_torn_page_is_found_and_the_file_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    steps = ("CREATE TABLE a (x);",)
    connection = open_database(path, steps).connection
    connection.executemany("INSERT INTO a VALUES (?)", [("y" * 500,) for _ in range(200)])
    connection.close()
    whole = bytearray(path.read_bytes())
    whole[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(whole)
    opened = open_database(path, steps)
    assert opened.note is not None
    assert "damaged" in opened.note
    assert opened.connection.execute("SELECT count(*) FROM a").fetchone() == (0,)
    (aside,) = [child for child in tmp_path.iterdir() if ".damaged-" in child.name]
    assert aside.read_bytes() == bytes(whole)


def test_a_write_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = open_database(path, ("CREATE TABLE a (x UNIQUE);",)).connection
    twice = [(1,), (1,)]
    with pytest.raises(BackendError, match="can not be written"), writing(connection, path):
        connection.executemany("INSERT INTO a VALUES (?)", twice)
    assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)
    with writing(connection, path):
        connection.execute("INSERT INTO a VALUES (2)")
    assert connection.execute("SELECT x FROM a").fetchone() == (2,)


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = open_database(path, ("CREATE TABLE a (x);",)).connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(BackendError, match="is full") as error, writing(connection, path):
        connection.execute("INSERT INTO a VALUES (?)", ("x" * 100_000,))
    assert "Free some space" in error.value.hint
    assert isinstance(error.value.__cause__, sqlite3.Error)
    assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)
