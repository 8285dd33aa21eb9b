"""A worker's key against a real coordinator: changed without a gap, refused in a copied home, kept after a conflict."""

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from joserfc.jwk import OKPKey
from msgspec import structs

from coordinator.accounts.keys import NEXT_KEY_NAME, make_key
from coordinator.accounts.people import SCOPES
from tests.coordinator.conftest import MANY, LiveCoordinator, PersonClient, WorkerClient
from worker_core.control.messages import PairArgs
from worker_core.core import rekeying
from worker_core.core.enrollment import read_enrollment
from worker_core.core.settings import Settings
from worker_core.core.worker import Worker
from worker_core.jobs.runtime import Runtime
from worker_core.journal.journal import Journal
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import TransportFault
from worker_core.link.identity import Credential, WorkerKey
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.keystore import FileStore, Found, Unavailable
from worker_core.machine.paths import find_paths
from worker_core.machine.sources import find_sources
from worker_core.wire.ids import new_id
from worker_core.wire.problems import problem
from worker_core.wire.session import Parameters

EMAIL = "ada@example.org"
QUICK = structs.replace(
    MANY,
    pairing_interval_s=0.1,
    worker=Parameters(poll_wait_s=1.0, retry_cap_s=1.0, reconnect_spread_s=0.0, heartbeat_s=1.0),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCoordinator]:
    data = tmp_path_factory.mktemp("identity")
    make_key(data / NEXT_KEY_NAME)
    started = LiveCoordinator(data, QUICK)
    started.account(EMAIL)
    yield started
    started.close()


@pytest.fixture(scope="module")
def ada(live: LiveCoordinator) -> PersonClient:
    return live.person(EMAIL, SCOPES)


class Home:
    """One home with its core, as often as it is started."""

    def __init__(self, folder: Path, live: LiveCoordinator, ada: PersonClient) -> None:
        self.paths = find_paths(str(folder))
        self.live, self.ada = live, ada
        self.worker: Any
        self._running = False

    async def start(self) -> Any:
        private_folder(self.paths.data)
        journal = Journal.open(self.paths.state_db, boot_id="boot-1")
        self.worker = Worker(
            self.paths,
            journal,
            find_sources(),
            Settings(allow_uncontained=True),
            "terminal",
            False,
            lambda: Runtime(("no-job",)),
        )
        self.worker.start()
        self._running = True
        return self.worker

    async def pair(self, name: str) -> Any:
        worker = self.worker if self._running else await self.start()
        pairing = await worker.begin_pairing(
            PairArgs(coordinator=self.live.url, email=EMAIL, credential_store="file", name=name)
        )
        approved = await asyncio.to_thread(self.ada.approve, pairing.started.user_code, name)
        assert approved.status_code == 200, approved.text
        await self.until(lambda: worker.status().state == "available")
        return worker

    async def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        self.worker.leave("now")
        async with asyncio.timeout(30):
            await self.worker.left.wait()
        await self.worker.journal.close()

    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(3000):
            if condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"not within a minute; the worker is {self.worker.status()}")

    def credential(self) -> Any:
        found = FileStore(self.paths.credential_file).load()
        assert isinstance(found, Found)
        return Credential.read(found.secret)

    def enrollment(self) -> Any:
        return read_enrollment(self.worker.journal)

    def shown(self, worker_id: str) -> dict[str, Any]:
        """The worker as its owner sees it."""
        return self.ada.send("GET", f"/v1/workers/{worker_id}").json()


@pytest.fixture
async def home(tmp_path: Path, live: LiveCoordinator, ada: PersonClient) -> AsyncIterator[Home]:
    made = Home(tmp_path / "home", live, ada)
    yield made
    await made.stop()


def twin_of(home: Home, worker_id: str) -> WorkerClient:
    """A machine with a copy of the home's key."""
    twin = home.live.workstation()
    secret = json.loads(home.credential().key.secret)
    twin.key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", **secret})
    twin.worker_id, twin.instance_id = worker_id, new_id("ins")
    return twin


async def test_keep_changes_the_key_of_the_machine_that_is_there_and_shuts_the_other_out(home: Home) -> None:
    worker = await home.pair("kept")
    worker_id, first = worker.status().worker.id, home.credential().key
    twin = twin_of(home, worker_id)
    stale = {"prev_instance_ids": ("ins_long_ago",), "boot_id": "elsewhere"}
    assert (await asyncio.to_thread(twin.try_connect, **stale)).json()["code"] == "credential-conflict"
    await home.until(lambda: worker.status().state == "problem")
    assert "credential-conflict" in worker.status().reasons
    assert "Another machine uses this worker's key" in worker.status().detail
    await asyncio.to_thread(home.ada.send, "POST", f"/v1/workers/{worker_id}/keep")
    await home.until(lambda: worker.status().state == "available")
    await home.until(lambda: home.credential().next is None)
    assert home.credential().key.thumbprint != first.thumbprint
    assert (await asyncio.to_thread(twin.try_connect, **stale)).json()["code"] == "key-replaced"
    assert home.enrollment().thumbprint == home.credential().key.thumbprint
    assert home.shown(worker_id)["conflict"] is None


async def test_a_lost_answer_to_a_key_change_loses_no_worker(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await home.pair("lost-answer")
    first = home.credential().key.thumbprint
    change = CoordinatorClient.change_key
    asked: list[str] = []

    async def lose_the_answer(self: CoordinatorClient, key: WorkerKey) -> None:
        await change(self, key)
        asked.append(key.thumbprint)
        raise TransportFault("broken", "the answer was lost")

    monkeypatch.setattr(CoordinatorClient, "change_key", lose_the_answer)
    worker.admission.rekeying.begin()
    await home.until(lambda: asked)
    await home.stop()
    both = home.credential()
    assert (both.key.thumbprint, both.next.thumbprint) == (first, asked[0])
    monkeypatch.setattr(CoordinatorClient, "change_key", change)
    worker = await home.start()
    await home.until(lambda: worker.status().state == "available")
    await home.until(lambda: home.credential().next is None)
    assert home.credential().key.thumbprint == asked[0]


async def test_a_key_change_cut_short_before_it_was_sent_goes_on_at_the_next_start(home: Home) -> None:
    await home.pair("cut-short")
    await home.stop()
    before = home.credential()
    following = WorkerKey.generate()
    prepared = Credential(before.key, following)
    FileStore(home.paths.credential_file).save(prepared.secret)
    worker = await home.start()
    await home.until(lambda: home.credential().next is None)
    assert home.credential().key.thumbprint == following.thumbprint
    assert worker.status().state in ("available", "connecting")


async def test_an_old_key_is_changed_by_itself_and_a_young_one_is_not(home: Home) -> None:
    worker = await home.pair("old-key")
    first, rekeying = home.credential().key.thumbprint, worker.admission.rekeying
    await rekeying.check_age(365 * 86400.0)
    assert home.credential().key.thumbprint == first
    worker.known.enrollment = structs.replace(worker.known.enrollment, key_made_at=1.0)
    await rekeying.check_age(365 * 86400.0)
    await home.until(lambda: home.credential().key.thumbprint != first)
    assert worker.known.enrollment.key_made_at > 1.0


async def test_a_store_that_takes_no_new_key_keeps_the_old_one_at_work(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await home.pair("locked-store")
    first = home.credential().key.thumbprint
    monkeypatch.setattr(FileStore, "save", lambda *_: Unavailable("locked", "The keystore is locked."))
    worker.admission.rekeying.begin()
    await home.until(lambda: "not changed yet: The keystore is locked" in caplog.text)
    assert home.credential().key.thumbprint == first
    assert worker.status().state == "available"


@pytest.mark.parametrize(("code", "waits_long"), [("invalid-request", True), ("internal", False)])
async def test_a_key_change_that_is_refused_for_good_is_asked_for_again_after_an_hour(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: str, waits_long: bool
) -> None:
    worker = await home.pair(f"refused-{code}")
    waits: list[float] = []

    async def refuse(*_: Any) -> None:
        raise problem(code)

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.Event().wait()

    monkeypatch.setattr(CoordinatorClient, "change_key", refuse)
    monkeypatch.setattr(rekeying, "asyncio", SimpleNamespace(sleep=wait, to_thread=asyncio.to_thread))
    worker.admission.rekeying.begin()
    await home.until(lambda: waits)
    assert (waits[0] >= 3600.0) is waits_long


async def test_a_key_that_is_being_saved_when_the_pairing_ends_does_not_stay_behind(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await home.pair("in-a-hurry")
    saving, go_on, save = threading.Event(), threading.Event(), FileStore.save

    def save_slowly(store: FileStore, secret: str) -> Any:
        saving.set()
        go_on.wait(10)
        return save(store, secret)

    monkeypatch.setattr(FileStore, "save", save_slowly)
    worker.admission.rekeying.begin()
    await home.until(saving.is_set)
    await worker.unpair()
    await asyncio.sleep(0.3)
    go_on.set()
    await worker.admission.wiping
    await asyncio.sleep(0.2)
    assert not home.paths.credential_file.exists()
    assert worker.known.enrollment is None


async def test_the_coordinators_next_key_is_pinned_beside_the_present_one(home: Home) -> None:
    await home.pair("next-key")
    keys = home.live.services.keys
    assert keys.next is not None
    await home.until(lambda: len(home.enrollment().jwks["keys"]) == 2)
    pinned = {key["x"] for key in home.enrollment().jwks["keys"]}
    assert pinned == {keys.public["x"], keys.next["x"]}


# a home that was copied


async def test_a_home_copied_to_another_computer_asks_to_pair_and_leaves_the_original_alone(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await home.pair("original")
    worker_id = worker.status().worker.id
    shutil.copytree(tmp_path / "home", tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock", "run"))
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"machine_id": "another computer"}))
    monkeypatch.setenv("STOKER_SCRIPTED_SOURCES", str(script))
    copied = Home(tmp_path / "copy", home.live, home.ada)
    twin = await copied.start()
    try:
        status = twin.status()
        assert (status.state, status.reasons) == ("unpaired", ("copied-home",))
        assert "copied from the computer of original of ada@example.org" in status.detail
        await copied.pair("the copy, paired anew")
        assert twin.status().worker.id != worker_id
        assert twin.status().reasons == ()
        assert home.shown(worker_id)["conflict"] is None
        assert worker.status().state == "available"
    finally:
        await copied.stop()


async def test_a_home_copied_on_the_same_computer_is_not_started_beside_the_original(
    home: Home, tmp_path: Path
) -> None:
    worker = await home.pair("twice-here")
    shutil.copytree(tmp_path / "home", tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock", "run"))
    copied = Home(tmp_path / "copy", home.live, home.ada)
    twin = await copied.start()
    try:
        await copied.until(lambda: twin.status().state == "problem")
        assert "copied-home" in twin.status().reasons
        assert "Another worker on this computer" in twin.status().detail
        assert worker.status().state == "available"
    finally:
        await copied.stop()


async def test_a_home_that_comes_back_to_its_computer_works_again(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.pair("traveller")
    await home.stop()
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"machine_id": "another computer"}))
    monkeypatch.setenv("STOKER_SCRIPTED_SOURCES", str(script))
    assert (await home.start()).status().state == "unpaired"
    await home.stop()
    monkeypatch.delenv("STOKER_SCRIPTED_SOURCES")
    worker = await home.start()
    await home.until(lambda: worker.status().state == "available")


async def test_the_status_shows_whose_worker_it_is_and_who_approved_it(home: Home) -> None:
    worker = await home.pair("shown")
    shown = worker.status().worker
    assert (shown.account, shown.approved_by) == (EMAIL, EMAIL)


async def test_a_removed_worker_says_so_and_offers_its_old_name_when_it_pairs_again(home: Home) -> None:
    worker = await home.pair("phoenix")
    worker_id = worker.status().worker.id
    await asyncio.to_thread(home.ada.send, "POST", f"/v1/workers/{worker_id}/revoke")
    await asyncio.to_thread(home.ada.send, "DELETE", f"/v1/workers/{worker_id}")
    await home.until(lambda: worker.status().state == "revoked" and not home.paths.credential_file.exists())
    assert worker.status().detail.startswith("Revoked by ada@example.org at ")
    args = PairArgs(coordinator=home.live.url, email=EMAIL, credential_store="file")
    pairing = await worker.begin_pairing(args)
    code = {"user_code": pairing.started.user_code}
    found = await asyncio.to_thread(home.ada.send, "POST", "/v1/console/pairings/lookup", code)
    assert found.json()["device_name"] == "phoenix"
    worker.cancel_pairing()
    await worker.decision()
