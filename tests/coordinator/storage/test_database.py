"""The database: what is answered is on the disk, and one write that fails takes nobody else down."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from coordinator.storage.database import Database, DatabaseClosed, UnusableDatabase, after_commit
from coordinator.storage.schema import coordinator_row


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "test.db")
    yield opened
    opened.close()


def _insert(number: int):
    def write(conn: Connection) -> int:
        conn.execute(insert(coordinator_row).values(id=number, generation=number, created_at=0.0))
        return number

    return write


def _ids(conn: Connection) -> list[int]:
    return list(conn.execute(select(coordinator_row.c.id).order_by(coordinator_row.c.id)).scalars())


async def test_a_write_that_returned_is_read_by_everyone(database):
    assert await database.write(_insert(1)) == 1
    assert await database.read(_ids) == [1]


def test_a_file_that_is_no_database_is_told_with_its_path_and_left_as_it_is(tmp_path):
    path = tmp_path / "coordinator.db"
    path.write_bytes(b"a letter to a friend" * 500)
    with pytest.raises(UnusableDatabase) as failed:
        Database.open(path)
    assert str(path) in str(failed.value)
    assert "not a database" in str(failed.value)
    assert "sqlalche.me" not in str(failed.value)
    assert path.read_bytes() == b"a letter to a friend" * 500


async def test_a_failing_write_takes_back_only_its_own_effects(database):
    def half(conn: Connection) -> None:
        _insert(7)(conn)
        raise ValueError("changed my mind")

    outcomes = await asyncio.gather(
        *(database.write(half if n == 7 else _insert(n)) for n in range(1, 20)), return_exceptions=True
    )
    assert [n for n in range(1, 20) if n != 7] == await database.read(_ids)
    assert isinstance(outcomes[6], ValueError)


async def test_a_broken_constraint_is_told_to_its_writer_alone(database):
    await database.write(_insert(1))
    outcomes = await asyncio.gather(database.write(_insert(1)), database.write(_insert(2)), return_exceptions=True)
    assert isinstance(outcomes[0], IntegrityError)
    assert outcomes[1] == 2


async def test_callbacks_run_on_the_loop_after_the_commit_and_before_the_answer(database):
    seen: list[tuple[str, int]] = []

    def write(conn: Connection) -> None:
        _insert(1)(conn)
        after_commit(conn, lambda: seen.append((threading.current_thread().name, len(database.read_sync(_ids)))))

    await database.write(write)
    assert seen == [(threading.current_thread().name, 1)]


async def test_callbacks_of_a_failed_write_are_forgotten(database):
    seen: list[int] = []

    def write(conn: Connection) -> None:
        after_commit(conn, lambda: seen.append(1))
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        await database.write(write)
    await database.write(_insert(1))
    assert seen == []


async def test_a_transaction_that_broke_is_told_to_all_and_the_next_works(database):
    def break_it(conn: Connection) -> None:
        # What SQLite does by itself when the disk is full.
        conn.exec_driver_sql("ROLLBACK")
        raise OSError("disk full")

    release = threading.Event()
    first = asyncio.ensure_future(database.write(lambda conn: release.wait(10)))
    await asyncio.sleep(0.05)
    together = [asyncio.ensure_future(database.write(run)) for run in (_insert(1), break_it, _insert(2))]
    await asyncio.sleep(0)
    release.set()
    await first
    outcomes = await asyncio.gather(*together, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["disk full"] * 3
    assert await database.write(_insert(3)) == 3
    assert await database.read(_ids) == [3]


async def test_readers_cannot_write(database):
    with pytest.raises(OperationalError, match="readonly"):
        await database.read(_insert(1))


async def test_many_waiting_writes_share_commits(database):
    release = threading.Event()
    first = asyncio.ensure_future(database.write(lambda conn: release.wait(10)))
    waiting = [asyncio.ensure_future(database.write(_insert(n))) for n in range(1, 301)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(first, *waiting) == [True, *range(1, 301)]
    assert len(await database.read(_ids)) == 300


async def test_close_finishes_the_waiting_writes(tmp_path):
    database = Database.open(tmp_path / "test.db")
    waiting = [asyncio.ensure_future(database.write(_insert(n))) for n in range(1, 50)]
    await asyncio.sleep(0)
    await asyncio.to_thread(database.close)
    assert len(await asyncio.gather(*waiting)) == 49
    with pytest.raises(DatabaseClosed):
        await database.write(_insert(50))
    reopened = Database.open(tmp_path / "test.db")
    assert len(reopened.read_sync(_ids)) == 49
    reopened.close()


def test_the_file_is_private(database, tmp_path):
    assert (tmp_path / "test.db").stat().st_mode & 0o077 == 0


def test_an_error_does_not_tell_the_values_it_was_about(database):
    def twice(conn):
        for _ in range(2):
            conn.execute(
                text("INSERT INTO account VALUES ('a', 'ada@example.org', :hash, 0)"), {"hash": "argon-secret"}
            )

    with pytest.raises(IntegrityError) as refused:
        database.write_sync(twice)
    assert "UNIQUE" in str(refused.value)
    assert "argon-secret" not in str(refused.value)
