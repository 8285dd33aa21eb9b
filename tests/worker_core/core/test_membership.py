"""Pairing called off, keys that are gone, and pairing again after all that."""

from typing import Any

import pytest

from worker_core.control.messages import PairArgs
from worker_core.core.pairings import PairingRefused


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
