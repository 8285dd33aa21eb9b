"""Pairing called off, keys that are gone, and pairing again after all that."""

import asyncio
import threading
from typing import Any

import pytest
from scripted_coordinator import refusal  # pyright: ignore[reportMissingImports]

from worker_core.control.messages import PairArgs, Request
from worker_core.core import admission, pairings, wiping
from worker_core.core.operations import CoreOperations
from worker_core.core.pairings import PairingRefused
from worker_core.machine.keystore import Absent, CredentialStore, Deleted, FileStore, Found, Unavailable, open_store


def pair_args(bench: Any, **changes: Any) -> PairArgs:
    fields: dict[str, Any] = {"coordinator": bench.coordinator.url, "email": "ada@example.org"}
    fields |= {"credential_store": "file", **changes}
    return PairArgs(**fields)


async def test_a_pairing_called_off_is_told_to_the_coordinator_and_leaves_no_key(bench: Any) -> None:
    pending = bench.coordinator.refusal("pairing-pending", error="authorization_pending")
    bench.coordinator.pair_answer = pending
    worker = await bench.start()
    await worker.begin_pairing(pair_args(bench))
    await bench.until(lambda: bench.coordinator.count("POST", "/v1/pairings/poll"))
    assert worker.status().pairing.user_code == "BCDF-GHJK"
    worker.cancel_pairing()
    outcome = await worker.decision()
    assert outcome.state == "canceled"
    assert bench.coordinator.count("DELETE", "/v1/pairings/.*") == 1
    assert worker.status().state == "unpaired"
    assert not bench.paths.credential_file.exists()
    bench.coordinator.pair_answer = None
    await worker.begin_pairing(pair_args(bench))
    await bench.until_state("available")


async def test_a_pairing_given_up_while_its_key_is_being_saved_leaves_no_key(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving, go_on = threading.Event(), threading.Event()
    save = FileStore.save

    def save_slowly(store: FileStore, secret: str) -> Any:
        saving.set()
        go_on.wait(10)
        return save(store, secret)

    monkeypatch.setattr(FileStore, "save", save_slowly)
    worker = await bench.start()
    begun = asyncio.create_task(worker.begin_pairing(pair_args(bench)))
    await bench.until(saving.is_set)
    begun.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await begun
    assert not bench.paths.credential_file.exists()


async def test_a_keystore_that_is_not_there_is_refused_with_the_cure(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bench.paths.data))
    worker = await bench.start()
    with pytest.raises(PairingRefused, match="--credential-store file") as refused:
        await worker.begin_pairing(pair_args(bench, credential_store="keyring"))
    assert refused.value.code == "refused"
    assert worker.status().state == "unpaired"
    assert bench.coordinator.seen == []


async def test_a_worker_whose_key_is_gone_says_so_and_never_pairs_by_itself(bench: Any) -> None:
    await bench.start_paired()
    await bench.stop()
    sessions = len(bench.coordinator.sessions)
    bench.paths.credential_file.unlink()
    await bench.start()
    await bench.until_state("problem")
    assert bench.worker.status().reasons == ("credential-missing",)
    assert "pair again" in bench.worker.status().detail
    assert len(bench.coordinator.sessions) == sessions
    assert await bench.worker.unpair() is False
    await bench.until(lambda: bench.worker.status().worker is None)
    await bench.worker.begin_pairing(pair_args(bench))
    await bench.until_state("available")


async def test_one_unsigned_refusal_throws_no_credential_away(bench: Any) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", "/v1/poll", *[bench.coordinator.refusal("worker-unknown")] * 2)
    await bench.until(lambda: "cannot-authenticate" in worker.known.troubles)
    assert worker.status().state == "problem"
    await bench.until_state("available")
    assert bench.paths.credential_file.exists()


async def test_after_a_revocation_a_person_can_pair_again(bench: Any) -> None:
    worker = await bench.start_paired()
    bench.coordinator.revoke()
    await bench.until_state("revoked")
    bench.coordinator.revocation = None
    await worker.begin_pairing(pair_args(bench))
    await bench.until_state("available")
    attempt = bench.offer(steps=3)
    await bench.until(lambda: attempt in bench.coordinator.completions)
    assert worker.known.farewell is None


class ScriptedStore:
    """A credential store that a test locks and unlocks."""

    kind = "keyring"

    def __init__(self, detail: str) -> None:
        self.detail = detail
        self.locked = True
        self.asked = 0

    def use(self, file: CredentialStore) -> "ScriptedStore":
        self.file = file
        return self

    def load(self) -> Found | Absent | Unavailable:
        self.asked += 1
        return Unavailable("locked", self.detail) if self.locked else self.file.load()

    def delete(self) -> Deleted | Unavailable:
        return Unavailable("locked", self.detail) if self.locked else self.file.delete()


@pytest.fixture
def store(bench: Any, monkeypatch: pytest.MonkeyPatch) -> ScriptedStore:
    made = ScriptedStore("The keystore is locked. Unlock it.").use(open_store(bench.paths, "file"))
    for module in (admission, wiping):
        monkeypatch.setattr(module, "open_store", lambda *_: made)
    monkeypatch.setattr(admission, "KEYSTORE_RETRY_S", 0.2)
    return made


async def test_a_locked_keystore_is_a_problem_until_it_is_unlocked_and_never_a_new_pairing(
    bench: Any, store: ScriptedStore
) -> None:
    store.locked = False
    await bench.start_paired()
    await bench.stop()
    thumbprint, seen = bench.coordinator.thumbprint, len(bench.coordinator.seen)
    store.locked, store.asked = True, 0
    worker = await bench.start()
    await bench.until(lambda: store.asked >= 3)
    status = worker.status()
    assert (status.state, status.reasons) == ("problem", ("keystore-locked",))
    assert status.detail == "The keystore is locked. Unlock it."
    assert status.worker is not None
    assert len(bench.coordinator.seen) == seen
    store.locked = False
    await bench.until_state("available")
    assert worker.status().reasons == ()
    assert bench.coordinator.thumbprint == thumbprint
    assert bench.coordinator.count("POST", "/v1/pairings") == 1
    attempt = bench.offer(steps=3)
    await bench.until(lambda: attempt in bench.coordinator.completions)


async def test_a_core_with_a_locked_keystore_leaves_when_asked(bench: Any, store: ScriptedStore) -> None:
    store.locked = False
    await bench.start_paired()
    await bench.stop()
    store.locked = True
    await bench.start()
    await bench.until_state("problem")
    await bench.stop("checkpoint")
    assert bench.worker.left.is_set()


async def test_a_key_that_the_keystore_keeps_is_told_after_a_revocation(bench: Any, store: ScriptedStore) -> None:
    store.locked = False
    worker = await bench.start_paired()
    store.locked = True
    bench.coordinator.revoke()
    await bench.until(lambda: worker.journal.fact("farewell") and not worker.journal.fact("enrollment"))
    await bench.until(lambda: "could not be removed" in worker.status().detail)
    assert "Unlock it" in worker.status().detail


async def test_a_pairing_ended_while_the_keystore_is_asked_is_not_taken_up_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.start_paired()
    await bench.stop()
    asked, go_on, load = threading.Event(), threading.Event(), FileStore.load

    def load_slowly(store: FileStore) -> Any:
        found = load(store)
        asked.set()
        go_on.wait(10)
        return found

    monkeypatch.setattr(FileStore, "load", load_slowly)
    worker = await bench.start()
    await bench.until(asked.is_set)
    await worker.unpair()
    await worker.admission.wiping
    seen = len(bench.coordinator.seen)
    go_on.set()
    await asyncio.sleep(0.5)
    assert (worker.known.contact, worker.admission.membership) == (None, None)
    assert worker.status().state == "unpaired"
    assert len(bench.coordinator.seen) == seen


async def test_a_pairing_called_off_after_its_approval_is_a_pairing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved, go_on, write = asyncio.Event(), asyncio.Event(), pairings.write_enrollment

    async def write_slowly(*enrollment: Any) -> None:
        approved.set()
        await go_on.wait()
        await write(*enrollment)

    monkeypatch.setattr(pairings, "write_enrollment", write_slowly)
    worker = await bench.start()
    await worker.begin_pairing(pair_args(bench))
    await bench.until(approved.is_set)
    worker.cancel_pairing()
    await asyncio.sleep(0.05)
    go_on.set()
    assert (await worker.decision()).state == "approved"
    await bench.until_state("available")
    assert bench.paths.credential_file.exists()


async def test_a_worker_in_conflict_can_be_unpaired_from_here(bench: Any) -> None:
    worker = await bench.start_paired()
    bench.coordinator.script("POST", "/v1/sessions", *[refusal("credential-conflict", retry_after_s=0.2)] * 1000)
    bench.coordinator.script("POST", "/v1/poll", refusal("session-replaced"))
    await bench.until(lambda: worker.known.life.standing == "conflict")
    faces: Any = CoreOperations(worker, None)  # type: ignore[arg-type]
    await faces.perform(Request(id="1", op="unpair"))
    await bench.until_state("unpaired")
    await bench.until(lambda: not bench.paths.credential_file.exists())
