"""The state machine, whole: every phase with every event, and rules that hold in every history."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.core import life as lives
from worker_core.core.life import Decline, Event, Life, advance

RUNNING = Life("connected", "running")
PHASES: dict[str, Life] = {
    "unpaired": Life("unpaired"),
    "pairing": Life("pairing"),
    "locked": Life("locked"),
    "starting": Life("starting"),
    "resuming": Life("starting", "stopping"),
    "ready": Life("connected"),
    "accepting": Life("connected", "accepting"),
    "busy": RUNNING,
    "finishing": Life("connected", "finishing"),
    "draining": replace(RUNNING, console="drain"),
    "stopping": Life("connected", "stopping", console="stop"),
    "drained": Life("connected", console="drain"),
    "paused": Life("connected", here="stop"),
    "expired": Life("connected", expired=True),
    "expired with a job": replace(RUNNING, expired=True),
    "upgrading": Life("connected", outdated=True),
    "outdated with a job": replace(RUNNING, outdated=True),
    "quarantined": Life("connected", unconfirmed=True),
    "conflict": Life("conflict"),
    "conflict with a job": Life("conflict", "running"),
    "at risk": replace(RUNNING, at_risk=True),
    "revoked": Life("revoked"),
}
SHOWN = {name: life.phase for name, life in PHASES.items()}
EVENTS: dict[str, Event] = {
    "pairing begun": lives.PairingBegun(),
    "pairing approved": lives.PairingApproved(),
    "pairing ended": lives.PairingEnded(),
    "keystore refused": lives.KeystoreRefused(),
    "keystore opened": lives.KeystoreOpened(),
    "session opened": lives.SessionOpened(),
    "conflict seen": lives.ConflictSeen(),
    "upgrade asked": lives.UpgradeAsked(),
    "upgrade done": lives.UpgradeAsked(asked=False),
    "to be confirmed": lives.Quarantined(held=True),
    "confirmed": lives.Quarantined(held=False),
    "lease lapsed": lives.LeaseLapsed(),
    "lease lapsed, stop": lives.LeaseLapsed(stop=True),
    "lease held": lives.LeaseHeld(),
    "offline too long": lives.OfflineTooLong(),
    "console: run": lives.ConsoleMode("run"),
    "console: drain": lives.ConsoleMode("drain"),
    "console: stop": lives.ConsoleMode("stop"),
    "here: run": lives.LocalMode("run"),
    "here: drain": lives.LocalMode("drain"),
    "here: stop": lives.LocalMode("stop"),
    "here: stop now": lives.LocalMode("stop", now=True),
    "expired": lives.AuthorizationSeen(expired=True),
    "renewed": lives.AuthorizationSeen(expired=False),
    "expiry grace over": lives.ExpiryGraceOver(),
    "offer": lives.OfferSeen(),
    "offer, disk full": lives.OfferSeen("disk-full"),
    "granted": lives.OfferGranted(),
    "offer gone": lives.OfferGone(),
    "held found": lives.HeldFound(),
    "job exited": lives.JobExited(),
    "job gone": lives.JobGone(),
    "cancel": lives.CancelOrdered(),
    "superseded": lives.Superseded(),
    "revoked": lives.Revoked(),
    "unpaired here": lives.Unpaired(),
    "leave: drain": lives.LeaveAsked("drain"),
    "leave: checkpoint": lives.LeaveAsked("checkpoint"),
    "leave: now": lives.LeaveAsked("now"),
}
DECLINE_BUSY = (Decline("busy"),)

# phase → event → (phase after, actions). What is not named changes nothing and does nothing.
TABLE: dict[str, dict[str, tuple[str, tuple[Any, ...]]]] = {
    "unpaired": {"pairing begun": ("pairing", ())},
    "pairing": {
        "pairing approved": ("starting", ("connect",)),
        "pairing ended": ("unpaired", ("forget-key",)),
    },
    "locked": {
        "keystore opened": ("starting", ("connect",)),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "starting": {
        "keystore refused": ("locked", ()),
        "session opened": ("ready", ()),
        "held found": ("resuming", ()),
        "offer": ("starting", (Decline("leaving"),)),
        "offer, disk full": ("starting", (Decline("leaving"),)),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "resuming": {
        "keystore refused": ("locked", ()),
        "session opened": ("stopping", ()),
        "job exited": ("resuming", ()),
        "job gone": ("starting", ("report",)),
        "superseded": ("resuming", ("discard-job",)),
        "here: stop now": ("resuming", ("kill-job", "report")),
        "leave: now": ("resuming", ("kill-job", "report")),
        "revoked": ("revoked", ("discard-job", "wipe")),
        "unpaired here": ("unpaired", ("discard-job", "wipe")),
    },
    "ready": {
        "console: drain": ("drained", ("report",)),
        "console: stop": ("paused", ("report",)),
        "here: drain": ("drained", ("report",)),
        "here: stop": ("paused", ("report",)),
        "here: stop now": ("paused", ("report",)),
        "expired": ("expired", ("report",)),
        "offer": ("accepting", ("accept",)),
        "offer, disk full": ("ready", (Decline("disk-full"),)),
        "held found": ("stopping", ()),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "accepting": {
        "console: drain": ("accepting", ("report",)),
        "console: stop": ("accepting", ("report",)),
        "here: drain": ("accepting", ("report",)),
        "here: stop": ("accepting", ("report",)),
        "here: stop now": ("accepting", ("report",)),
        "expired": ("accepting", ("report",)),
        "granted": ("busy", ("spawn", "report")),
        "offer gone": ("ready", ("report",)),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
        "leave: drain": ("accepting", ("report",)),
        "leave: checkpoint": ("accepting", ("report",)),
        "leave: now": ("accepting", ("report",)),
    },
    "busy": {
        "console: drain": ("draining", ("report",)),
        "console: stop": ("stopping", ("stop-job", "report")),
        "here: drain": ("draining", ("report",)),
        "here: stop": ("stopping", ("stop-job", "report")),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "expired": ("expired", ("report",)),
        "job exited": ("finishing", ()),
        "job gone": ("ready", ("report",)),
        "cancel": ("stopping", ("cancel-job", "report")),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("draining", ("report",)),
        "leave: checkpoint": ("stopping", ("stop-job", "report")),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "finishing": {
        "console: drain": ("finishing", ("report",)),
        "console: stop": ("finishing", ("report",)),
        "here: drain": ("finishing", ("report",)),
        "here: stop": ("finishing", ("report",)),
        "here: stop now": ("finishing", ("report",)),
        "expired": ("finishing", ("report",)),
        "job gone": ("ready", ("report",)),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("finishing", ("report",)),
        "leave: checkpoint": ("finishing", ("report",)),
        "leave: now": ("finishing", ("report",)),
    },
    "draining": {
        "console: run": ("busy", ("report",)),
        "console: stop": ("stopping", ("stop-job", "report")),
        "here: drain": ("draining", ("report",)),
        "here: stop": ("stopping", ("stop-job", "report")),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "expired": ("expired", ("report",)),
        "job exited": ("finishing", ()),
        "job gone": ("drained", ("report",)),
        "cancel": ("stopping", ("cancel-job", "report")),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("draining", ("report",)),
        "leave: checkpoint": ("stopping", ("stop-job", "report")),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "stopping": {
        "console: run": ("stopping", ("report",)),
        "console: drain": ("stopping", ("report",)),
        "here: drain": ("stopping", ("report",)),
        "here: stop": ("stopping", ("report",)),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "expired": ("stopping", ("report",)),
        "job exited": ("finishing", ()),
        "job gone": ("paused", ("report",)),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("stopping", ("report",)),
        "leave: checkpoint": ("stopping", ("report",)),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "drained": {
        "console: run": ("ready", ("report",)),
        "console: stop": ("paused", ("report",)),
        "here: drain": ("drained", ("report",)),
        "here: stop": ("paused", ("report",)),
        "here: stop now": ("paused", ("report",)),
        "expired": ("expired", ("report",)),
        "offer": ("drained", (Decline("drained"),)),
        "offer, disk full": ("drained", (Decline("drained"),)),
        "held found": ("stopping", ()),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "paused": {
        "console: drain": ("paused", ("report",)),
        "console: stop": ("paused", ("report",)),
        "here: run": ("ready", ("report",)),
        "here: drain": ("drained", ("report",)),
        "expired": ("expired", ("report",)),
        "offer": ("paused", (Decline("stopped"),)),
        "offer, disk full": ("paused", (Decline("stopped"),)),
        "held found": ("stopping", ()),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "expired": {
        "console: drain": ("expired", ("report",)),
        "console: stop": ("expired", ("report",)),
        "here: drain": ("expired", ("report",)),
        "here: stop": ("expired", ("report",)),
        "here: stop now": ("expired", ("report",)),
        "renewed": ("ready", ("report",)),
        "offer": ("expired", (Decline("authorization-expired"),)),
        "offer, disk full": ("expired", (Decline("authorization-expired"),)),
        "held found": ("stopping", ()),
        "revoked": ("revoked", ("wipe",)),
        "unpaired here": ("unpaired", ("wipe",)),
    },
    "expired with a job": {
        "console: drain": ("expired", ("report",)),
        "console: stop": ("stopping", ("stop-job", "report")),
        "here: drain": ("expired", ("report",)),
        "here: stop": ("stopping", ("stop-job", "report")),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "renewed": ("busy", ("report",)),
        "expiry grace over": ("stopping", ("stop-job", "report")),
        "job exited": ("finishing", ()),
        "job gone": ("expired", ("report",)),
        "cancel": ("stopping", ("cancel-job", "report")),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("expired", ("report",)),
        "leave: checkpoint": ("stopping", ("stop-job", "report")),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "upgrading": {
        "console: drain": ("upgrading", ("report",)),
        "console: stop": ("upgrading", ("report",)),
        "here: drain": ("upgrading", ("report",)),
        "here: stop": ("upgrading", ("report",)),
        "here: stop now": ("upgrading", ("report",)),
        "upgrade done": ("ready", ("report",)),
        "expired": ("expired", ("report",)),
        "offer": ("upgrading", (Decline("upgrade-required"),)),
        "offer, disk full": ("upgrading", (Decline("upgrade-required"),)),
        "held found": ("stopping", ()),
    },
    "outdated with a job": {
        "console: stop": ("stopping", ("stop-job", "report")),
        "here: stop": ("stopping", ("stop-job", "report")),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "upgrade done": ("busy", ("report",)),
        "expired": ("expired", ("report",)),
        "job exited": ("finishing", ()),
        "job gone": ("upgrading", ("report",)),
        "cancel": ("stopping", ("cancel-job", "report")),
        "superseded": ("stopping", ("discard-job",)),
        "leave: checkpoint": ("stopping", ("stop-job", "report")),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "quarantined": {
        "console: drain": ("quarantined", ("report",)),
        "here: stop": ("quarantined", ("report",)),
        "confirmed": ("ready", ("report",)),
        "expired": ("expired", ("report",)),
        "offer": ("quarantined", (Decline("confirm-needed"),)),
        "offer, disk full": ("quarantined", (Decline("confirm-needed"),)),
        "held found": ("stopping", ()),
    },
    "conflict": {
        "session opened": ("ready", ()),
        "offer": ("conflict", (Decline("leaving"),)),
        "offer, disk full": ("conflict", (Decline("leaving"),)),
        "held found": ("stopping", ()),
    },
    "conflict with a job": {
        "session opened": ("busy", ()),
        "console: drain": ("draining", ("report",)),
        "console: stop": ("stopping", ("stop-job", "report")),
        "here: drain": ("draining", ("report",)),
        "here: stop": ("stopping", ("stop-job", "report")),
        "here: stop now": ("stopping", ("kill-job", "report")),
        "expired": ("expired", ("report",)),
        "job exited": ("finishing", ()),
        "job gone": ("conflict", ("report",)),
        "cancel": ("stopping", ("cancel-job", "report")),
        "superseded": ("stopping", ("discard-job",)),
        "leave: drain": ("draining", ("report",)),
        "leave: checkpoint": ("stopping", ("stop-job", "report")),
        "leave: now": ("stopping", ("kill-job", "report")),
    },
    "revoked": {"pairing begun": ("pairing", ())},
}
for name in ("conflict", "conflict with a job"):
    TABLE[name] |= {"to be confirmed": (SHOWN[name], ("report",))}
TABLE["at risk"] = {
    **TABLE["busy"],
    "lease held": ("busy", ()),
    "offline too long": ("stopping", ("stop-job",)),
}
PAIRED = tuple(name for name, life in PHASES.items() if life.standing in ("starting", "connected"))
RUNS = tuple(name for name, life in PHASES.items() if life.slot == "running")
WITH_A_JOB = ("finishing", "stopping", *RUNS)
OCCUPIED = ("accepting", *WITH_A_JOB, "resuming")
EVENT = st.sampled_from(list(EVENTS.values()))
for name in ("upgrading", "quarantined", "conflict"):
    TABLE[name] |= {"revoked": ("revoked", ("wipe",)), "unpaired here": ("unpaired", ("wipe",))}
for name in PAIRED:
    before = PHASES[name]
    TABLE[name] |= {"conflict seen": (replace(before, standing="conflict").phase, ())}
    if not before.outdated:
        TABLE[name] |= {"upgrade asked": (replace(before, outdated=True).phase, ("report",))}
    if not before.unconfirmed:
        TABLE[name] |= {"to be confirmed": (replace(before, unconfirmed=True).phase, ("report",))}
for name in RUNS:
    TABLE[name] |= {"lease lapsed": (SHOWN[name], ()), "lease lapsed, stop": ("stopping", ("stop-job",))}
for name in WITH_A_JOB:
    TABLE[name] |= {
        "revoked": ("revoked", ("discard-job", "wipe")),
        "unpaired here": ("unpaired", ("discard-job", "wipe")),
    }
for name in OCCUPIED:
    TABLE[name] |= dict.fromkeys(("offer", "offer, disk full"), (name, DECLINE_BUSY))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", PHASES)
def test_every_pair_of_phase_and_event(phase: str, event: str) -> None:
    before = PHASES[phase]
    after, actions = advance(before, EVENTS[event])
    if event in TABLE[phase]:
        expected_phase, expected_actions = TABLE[phase][event]
        assert after.phase == SHOWN.get(expected_phase, expected_phase)
        assert actions == expected_actions
        return
    assert after.phase == before.phase or "leave" in actions
    assert set(actions) <= {"report", "leave"}
    if not isinstance(EVENTS[event], lives.ConsoleMode | lives.LocalMode | lives.LeaveAsked | lives.AuthorizationSeen):
        assert (after, actions) == (before, ())


def test_the_table_names_only_phases_and_events_that_exist() -> None:
    assert set(TABLE) == set(PHASES)
    assert {event for row in TABLE.values() for event in row} <= set(EVENTS)
    assert {life.phase for life in PHASES.values()} == set(lives.Phase.__args__)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENT, max_size=60))
def test_in_every_history_a_job_runs_only_where_it_may(history: list[Event]) -> None:
    life, running = Life(), False
    for event in history:
        before = life
        life, actions = advance(life, event)
        if "spawn" in actions:
            assert before.slot == "accepting"
            assert before.mode == "run"
            assert not running
            running = True
        if "accept" in actions:
            assert before.takes_work
        if "wipe" in actions:
            assert life.standing in ("revoked", "unpaired")
            assert life.slot in ("free", "stopping")
        if isinstance(event, lives.JobGone) and life.slot == "free":
            running = False
        if "leave" in actions:
            assert life.slot == "free"
        assert not (life.takes_work and (life.expired or life.mode != "run" or life.standing != "connected"))


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENT, max_size=40))
def test_a_revoked_worker_does_nothing_more_until_it_is_paired_again(history: list[Event]) -> None:
    life, _ = advance(RUNNING, lives.Revoked())
    for event in history:
        if isinstance(event, lives.PairingBegun):
            return
        life, actions = advance(life, event)
        assert life.standing == "revoked"
        assert not {"accept", "spawn", "connect"} & set(actions)
