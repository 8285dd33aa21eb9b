"""What a person is shown follows from the facts, and is true or carries its age."""

from dataclasses import replace
from typing import Any

import pytest

from worker_core.core.enrollment import Enrollment, Farewell
from worker_core.core.life import Life
from worker_core.core.shown import Facts, show
from worker_core.core.troubles import LINK_TROUBLES, Troubles, trouble_of
from worker_core.link.faults import TransportFault
from worker_core.wire.problems import problem
from worker_core.wire.session import Authorization

ENROLLED = Enrollment(
    coordinator="https://stoker.example.org",
    worker_id="wrk",
    worker_name="lathe",
    account="ada@example.org",
    approved_by="ada@example.org",
    thumbprint="t",
    jwks={"keys": []},
    credential_store="file",
    authorization_s=86400,
)
READY = Facts(
    life=Life("connected"),
    pid=1,
    version="1",
    started_by="terminal",
    enrollment=ENROLLED,
    contact_age_s=1.0,
    contacted=True,
)
RUNNING = replace(READY, life=Life("connected", "running"))
STALE = {"contact_age_s": 60.0}
FULL = {"troubles": {"disk-full": "Free some space."}}
LOCKED = {"troubles": {"keystore-locked": "Unlock it."}}


@pytest.mark.parametrize(
    ("facts", "state", "reasons"),
    [
        (replace(READY, life=Life(), enrollment=None), "unpaired", ()),
        (replace(READY, life=Life("pairing"), enrollment=None), "pairing", ()),
        (replace(READY, life=Life("starting"), contact_age_s=3.0), "connecting", ()),
        (replace(READY, life=Life("starting"), **STALE), "offline", ("coordinator-unreachable",)),
        (READY, "available", ()),
        (replace(READY, **STALE), "offline", ("coordinator-unreachable",)),
        (replace(READY, life=Life("connected", "accepting")), "training", ()),
        (RUNNING, "training", ()),
        (replace(RUNNING, **STALE), "training", ("coordinator-unreachable",)),
        (replace(RUNNING, life=Life("connected", "running", console="drain")), "draining", ("drained",)),
        (replace(READY, life=Life("connected", console="drain")), "paused", ("drained",)),
        (replace(READY, life=Life("connected", here="stop")), "paused", ("stopped",)),
        (replace(READY, life=Life("connected", "stopping", here="stop")), "paused", ("stopped",)),
        (replace(READY, life=Life("connected", "stopping")), "training", ()),
        (replace(READY, **FULL), "problem", ("disk-full",)),
        (replace(RUNNING, **FULL), "training", ("disk-full",)),
        (replace(READY, life=Life("locked"), **LOCKED), "problem", ("keystore-locked",)),
        (replace(READY, life=Life("locked"), **LOCKED, **STALE), "problem", ("keystore-locked",)),
        (replace(READY, life=Life("connected", expired=True)), "expired", ()),
        (replace(READY, life=Life("revoked"), enrollment=None), "revoked", ()),
        (replace(READY, clock_offset_s=4000.0), "available", ("clock-wrong",)),
    ],
)
def test_state_and_reasons(facts: Facts, state: str, reasons: tuple[str, ...]) -> None:
    status = show(facts)
    assert (status.state, status.reasons) == (state, reasons)


def test_the_remaining_authorization_ages_with_our_copy_of_it() -> None:
    seen = Authorization(expires_at="soon", remaining_s=100.0, extend_while_healthy=True)
    shown = show(replace(READY, authorization=seen, authorization_age_s=30.0)).authorization
    assert shown is not None
    assert shown.remaining_s == 70.0
    late = show(replace(READY, authorization=seen, authorization_age_s=300.0)).authorization
    assert late is not None
    assert late.remaining_s == 0.0


def test_a_revoked_worker_says_who_and_when() -> None:
    gone = Farewell(coordinator="c", worker_name="lathe", by="ada", revoked_at="2026-01-01", reason="sold")
    detail = show(replace(READY, life=Life("revoked"), enrollment=None, farewell=gone)).detail
    assert "ada" in detail
    assert "2026-01-01" in detail
    assert "sold" in detail


def test_a_key_that_could_not_be_removed_is_never_called_gone() -> None:
    left = "Its key could not be removed. Unlock the keystore."
    gone = Farewell(coordinator="c", worker_name="lathe", by="ada", revoked_at="now", key_left=left)
    detail = show(replace(READY, life=Life("revoked"), enrollment=None, farewell=gone)).detail
    assert left in detail
    assert "Its key is gone" not in detail


def test_a_problem_comes_with_its_cure_and_an_age_is_not_invented() -> None:
    assert show(replace(READY, **FULL)).detail == "Free some space."
    assert show(replace(READY, contacted=False)).contact_age_s is None
    assert show(READY).mode.console is None
    assert show(replace(READY, console_seen=True)).mode.console == "run"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (TransportFault("not-ours", "a portal"), "wrong-coordinator"),
        (TransportFault("clock-wrong", "expired"), "clock-wrong"),
        (TransportFault("refused", "no"), "coordinator-unreachable"),
        (TransportFault("timeout", "slow"), "coordinator-unreachable"),
        (problem("worker-unknown"), "cannot-authenticate"),
        (problem("bad-proof"), "cannot-authenticate"),
        (problem("token-expired"), None),
        (problem("rate-limited"), None),
        (problem("lease-superseded"), None),
    ],
)
def test_what_a_fault_says_about_the_link(fault: Exception, reason: str | None) -> None:
    trouble = trouble_of(fault)
    assert (trouble[0] if trouble else None) == reason
    assert reason is None or reason in LINK_TROUBLES


def test_a_trouble_stays_until_it_is_cleared() -> None:
    troubles: Any = Troubles()
    assert troubles.set("disk-full", "a") is True
    assert troubles.set("disk-full", "b") is False
    assert troubles.as_dict() == {"disk-full": "b"}
    assert troubles.clear("clock-wrong") is False
    assert troubles.clear("disk-full", "clock-wrong") is True
    assert "disk-full" not in troubles
