"""A database restored from a copy is noticed; the dead stay dead, and nobody gets offers until a person has looked."""

import copy
import logging
import shutil
import sqlite3

import pytest
from joserfc.jwk import OKPKey
from msgspec import structs
from sqlalchemy import select

from coordinator.errors import HostError
from coordinator.storage.database import Database
from coordinator.storage.generation import Generation, Settled, Stamp, declare_restored, settle
from coordinator.storage.identity_log import Replacement, append_entry
from coordinator.storage.private_files import append_private
from coordinator.storage.schema import worker as worker_table
from worker_core.wire.codec import decode
from worker_core.wire.ids import new_id
from worker_core.wire.problems import Problem
from worker_core.wire.session import KeyChange


def refusal(response) -> Problem:
    return decode(response.content, Problem)


def backed_up(live, to):
    """Copy the database as a backup of a running coordinator does."""
    source, target = sqlite3.connect(live.data / "coordinator.db"), sqlite3.connect(to)
    source.backup(target)
    source.close()
    target.close()


def restored(live, backup, start_coordinator):
    """End a coordinator, put an older database in place and start again."""
    live.close()
    for name in ("coordinator.db-wal", "coordinator.db-shm"):
        (live.data / name).unlink(missing_ok=True)
    shutil.copy(backup, live.data / "coordinator.db")
    return start_coordinator("coordinator")


def moved_to(worker, live):
    """Let a worker speak to the coordinator at its new address."""
    worker.http, worker.url, worker.nonce = live.workstation().http, live.url, None
    return worker


def test_stamps_tell_a_restored_database() -> None:
    def stamp(gen: int, mark: int) -> Stamp:
        return Stamp(gen=gen, mark=mark)

    assert settle(None, None) == Settled(stamp(1, 1), restored=False)
    assert settle(stamp(1, 5), stamp(1, 5)) == Settled(stamp(1, 6), restored=False)
    assert settle(stamp(1, 6), stamp(1, 5)) == Settled(stamp(1, 7), restored=False), "a crash between the two writes"
    assert settle(stamp(2, 9), stamp(1, 8)) == Settled(stamp(2, 10), restored=False)
    assert settle(stamp(1, 4), stamp(1, 5)) == Settled(stamp(2, 6), restored=True)
    assert settle(stamp(1, 9), stamp(2, 5)) == Settled(stamp(3, 10), restored=True)
    assert settle(stamp(3, 9), None) == Settled(stamp(4, 10), restored=True), "the database was moved here alone"
    assert settle(None, stamp(3, 9)) == Settled(stamp(4, 10), restored=False), "a new database beside an old stamp"


def test_an_ordinary_restart_keeps_the_generation(start_coordinator):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    live.close()
    again = start_coordinator()
    assert again.services.generation == 1
    assert moved_to(worker, again).connect().control.held == ""


def test_after_a_restore_workers_wait_for_a_person_and_the_revoked_stay_revoked(start_coordinator, tmp_path, caplog):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker, doomed, unpaired = live.worker(ada), live.worker(ada), live.worker(ada)
    backed_up(live, tmp_path / "backup.db")
    late = live.worker(ada)
    ada.send("POST", f"/v1/workers/{late.worker_id}/revoke")
    ada.send("POST", f"/v1/workers/{doomed.worker_id}/revoke", {"reason": "sold"})
    unpaired.call("DELETE", "/v1/worker")
    with caplog.at_level(logging.WARNING):
        again = restored(live, tmp_path / "backup.db", start_coordinator)
    assert "it was restored" in caplog.text
    assert again.services.generation == 2
    for dead in (doomed, unpaired, late):
        answer = refusal(moved_to(dead, again).try_connect())
        assert (answer.code, bool(answer.signed)) == ("worker-revoked", True)
    moved_to(worker, again)
    newer = {"instance_id": new_id("ins"), "prev_instance_ids": ("one after the backup",), "boot_id": "other"}
    started = worker.connect(**newer)
    assert started.control.gen == 2
    assert started.control.held == "confirm-needed"
    ada = again.person("ada@example.org")
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert (shown["state"], shown["confirm_needed"], shown["conflict"]) == ("problem", True, None)
    assert ada.send("POST", "/v1/workers/confirm").json() == {"confirmed": [shown["name"]]}
    shown = ada.send("GET", f"/v1/workers/{worker.worker_id}").json()
    assert (shown["state"], shown["confirm_needed"]) == ("available", False)
    acts = [entry["act"] for entry in ada.send("GET", "/v1/audit").json()["items"]]
    assert acts[0] == "confirmed"
    assert acts.count("revoked") == 2, "told again: those that the older database had still alive"
    assert "restored" in acts
    again.close()
    assert start_coordinator().services.generation == 2, "one restore is noticed once"


def test_a_key_changed_after_the_backup_stays_the_workers_key(start_coordinator, tmp_path):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    backed_up(live, tmp_path / "backup.db")
    fresh = OKPKey.generate_key("Ed25519")
    worker.call("POST", "/v1/heartbeat", {"n": 1})
    by_new = copy.copy(worker)
    by_new.key = fresh
    proof = by_new.proof("POST", "/v1/worker/key", worker.token)
    assert worker.call("POST", "/v1/worker/key", KeyChange(proof=proof)).status_code == 204
    again = restored(live, tmp_path / "backup.db", start_coordinator)
    assert refusal(moved_to(worker, again).try_connect()).code == "key-replaced"
    worker.key = fresh
    assert worker.try_connect().status_code == 201


def test_a_restore_is_noticed_until_all_that_it_asks_for_is_in_the_database(tmp_path):
    database = Database.open(tmp_path / "coordinator.db")
    assert not Generation.open(database, tmp_path, 0.0).restored
    declare_restored(tmp_path)
    assert Generation.open(database, tmp_path, 0.0).restored
    cut_short = Generation.open(database, tmp_path, 0.0)
    assert (cut_short.restored, cut_short.number) == (True, 2)
    database.write_sync(cut_short.settle_in)
    after = Generation.open(database, tmp_path, 0.0)
    assert (after.restored, after.number) == (False, 2)
    database.close()


def test_a_copy_is_caught_although_the_connection_began_before_a_restore(start_coordinator, tmp_path):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    backed_up(live, tmp_path / "backup.db")
    again = restored(live, tmp_path / "backup.db", start_coordinator)
    moved_to(worker, again)
    assert worker.send("POST", f"/v1/sessions/{worker.session_id}/token").status_code == 200
    stale = {"instance_id": new_id("ins"), "prev_instance_ids": ("ins_long_ago",), "boot_id": "of-the-copy"}
    assert refusal(worker.try_connect(**stale)).code == "credential-conflict"


def test_a_key_change_that_was_logged_and_refused_does_not_come_true_later(start_coordinator, tmp_path):
    live = start_coordinator()
    worker = live.worker(live.person("ada@example.org"))
    backed_up(live, tmp_path / "backup.db")
    never = Replacement(worker_id=worker.worker_id, old=worker.thumbprint, new="never-committed", at=1.0)
    append_entry(live.data, never)
    live.close()
    live = start_coordinator()
    assert moved_to(worker, live).try_connect().status_code == 201
    append_entry(live.data, structs.replace(never, new="committed"))
    again = restored(live, tmp_path / "backup.db", start_coordinator)
    assert refusal(moved_to(worker, again).try_connect()).code == "key-replaced"
    query = select(worker_table.c.thumbprint)
    assert again.do(again.services.db.read(lambda conn: conn.execute(query).scalar_one())) == "committed"


def test_a_damaged_side_file_is_named_with_its_cure(tmp_path):
    database = Database.open(tmp_path / "coordinator.db")
    (tmp_path / "generation.json").write_text("{")
    with pytest.raises(HostError, match=r"generation\.json.*remove it"):
        Generation.open(database, tmp_path, 0.0)
    database.close()


def test_a_half_written_line_of_the_log_is_left_out(start_coordinator, tmp_path):
    live = start_coordinator()
    ada = live.person("ada@example.org")
    worker = live.worker(ada)
    backed_up(live, tmp_path / "backup.db")
    ada.send("POST", f"/v1/workers/{worker.worker_id}/revoke")
    log = live.data / "revocations.log"
    half_written, whole = b'{"typ":"revo', log.read_bytes()
    log.write_bytes(half_written)
    append_private(log, whole.rstrip(b"\n"))
    again = restored(live, tmp_path / "backup.db", start_coordinator)
    assert refusal(moved_to(worker, again).try_connect()).code == "worker-revoked"
