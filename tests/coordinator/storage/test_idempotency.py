"""Requests with a key act once and answer alike for ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.storage.database import Database
from coordinator.storage.idempotency import forget_old_answers, idempotent
from worker_core.wire.problems import ProblemError


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "test.db")
    yield opened
    opened.close()


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> tuple[int, bytes]:
        self.count += 1
        return 201, b"%d" % self.count


def test_the_same_key_and_body_act_once(database):
    act = Counter()
    answers = [database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 1.0, act)) for _ in range(3)]
    assert answers == [(201, b"1")] * 3


def test_the_same_key_with_another_body_is_refused(database):
    act = Counter()
    database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 1.0, act))
    with pytest.raises(ProblemError) as refused:
        database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"other", 1.0, act))
    assert refused.value.code == "idempotency-mismatch"
    assert act.count == 1


def test_keys_of_two_accounts_do_not_meet(database):
    act = Counter()
    database.write_sync(lambda conn: idempotent(conn, "one", "key", b"body", 1.0, act))
    database.write_sync(lambda conn: idempotent(conn, "two", "key", b"other", 1.0, act))
    assert act.count == 2


def test_a_failed_act_leaves_no_answer_behind(database):
    def fail() -> tuple[int, bytes]:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 1.0, fail))
    assert database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 1.0, Counter())) == (201, b"1")


def test_old_answers_are_forgotten(database):
    act = Counter()
    database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 1.0, act))
    database.write_sync(lambda conn: forget_old_answers(conn, before=2.0))
    database.write_sync(lambda conn: idempotent(conn, "acc", "key", b"body", 3.0, act))
    assert act.count == 2
