"""A campaign proves something only if its checks fail when they should: each is shown what it must refuse."""

import json
from pathlib import Path
from typing import Any

from tests.faults import invariants
from tests.faults.evidence import JobEvidence
from tests.faults.invariants import Counts
from tests.faults.plan import draw
from tests.faults.record import Exchange, Record, Request
from tests.faults.secrets import secrets_in, secrets_of
from worker_core.wire.client import ArtifactView, AttemptView, JobView, MetricPoint
from worker_core.wire.vocabulary import AttemptState, JobState

SHA = "ab" * 32


def _attempt(
    ordinal: int, state: AttemptState = "succeeded", epoch: int | None = None, failure: str | None = None
) -> AttemptView:
    return AttemptView(
        id=f"att_{ordinal}",
        ordinal=ordinal,
        epoch=ordinal if epoch is None else epoch,
        state=state,
        worker="box",
        created_at="",
        ended_at=None,
        step=0,
        progress=0,
        eta_s=None,
        error_class=failure,
        error=None,
        next_seq=0,
    )


def _job(
    *attempts: AttemptView, state: JobState = "succeeded", events: dict[str, list[Any]] | None = None
) -> JobEvidence:
    view = JobView(
        id="job_1",
        state=state,
        offered=False,
        kind="rl-session",
        name="plain-0",
        attempt=len(attempts),
        worker=None,
        reason="",
        created_at="",
        started_at=None,
        ended_at=None,
        step=0,
        progress=0,
        eta_s=None,
        attempts=attempts,
    )
    return JobEvidence(view, events or {}, [], [])


def _point(seq: int, step: int) -> tuple[int, dict[str, Any]]:
    return seq, {"t": "m", "step": step, "values": {"train/loss": 0.5}}


def _record(*exchanges: tuple[float, str, int, dict[str, Any], dict[str, Any]]) -> Record:
    record = Record()
    for sent_at, path, status, asked, answered in exchanges:
        made = Exchange(sent_at, sent_at + 0.1, "wrk_1", "POST", path, status, asked, answered)
        record._exchanges.append(made)
    return record


def _accept(at: float, ordinal: int) -> tuple[float, str, int, dict[str, Any], dict[str, Any]]:
    answered = {"job_id": "job_1", "lease": {"epoch": ordinal}}
    return at, f"/v1/attempts/att_{ordinal}/accept", 200, {"epoch": ordinal}, answered


def _events(
    at: float, ordinal: int, status: int, *events: dict[str, Any], first: int = 0
) -> tuple[float, str, int, dict[str, Any], dict[str, Any]]:
    asked = {"epoch": ordinal, "first_seq": first, "events": list(events)}
    return at, f"/v1/attempts/att_{ordinal}/events", status, asked, {"next_seq": first + len(events)}


def test_a_job_that_never_ends_is_a_violation_unless_nobody_is_left_to_run_it() -> None:
    waiting = _job(state="queued")
    assert list(invariants.ended_jobs([waiting], workers_left=True))
    assert list(invariants.ended_jobs([waiting], workers_left=False)), "it must say why it waits"
    assert list(invariants.ended_jobs([_job(state="running")], workers_left=False))
    assert not list(invariants.ended_jobs([_job(state="failed")], workers_left=True))


def test_two_successes_or_one_in_an_old_attempt_are_violations() -> None:
    assert list(invariants.one_outcome([_job(_attempt(1), _attempt(2))]))
    assert list(invariants.one_outcome([_job(_attempt(1), _attempt(2, "failed"))]))
    assert list(invariants.one_outcome([_job(_attempt(1, "lost", epoch=2), _attempt(2))]))
    assert not list(invariants.one_outcome([_job(_attempt(1, "superseded"), _attempt(2))]))


def test_a_failure_that_nobody_caused_is_a_violation() -> None:
    killed = _job(_attempt(1, "failed", failure="signal"))
    assert list(invariants.failures_have_a_cause([killed], {"cut": 1}))
    assert not list(invariants.failures_have_a_cause([killed], {"kill-job": 1}))
    broken = _job(_attempt(1, "failed", failure="start-failed"))
    assert list(invariants.failures_have_a_cause([broken], {"kill-job": 1}))


def test_a_late_write_that_is_taken_is_a_violation_and_one_that_is_refused_counts() -> None:
    counts = Counts()
    taken = _record(_accept(1, 1), _accept(5, 2), _events(6, 1, 200))
    assert list(invariants.fenced(taken, counts))
    refused = _record(_accept(1, 1), _accept(5, 2), _events(6, 1, 409))
    assert not list(invariants.fenced(refused, counts))
    assert counts.stale_refused == 1
    in_flight = _record(_accept(1, 1), _accept(5, 2), _events(5.05, 1, 200))
    assert not list(invariants.fenced(in_flight, counts)), "sent before the newer grant was known"


def test_a_point_that_was_acknowledged_and_is_gone_doubled_or_changed_is_a_violation() -> None:
    sent = [_point(seq, step)[1] for seq, step in ((0, 32), (1, 64))]
    record = _record(_accept(1, 1), _events(2, 1, 200, *sent))

    def check(stored: list[Any], shown: tuple[MetricPoint, ...] = ()) -> list[str]:
        job = _job(_attempt(1), events={"att_1": stored})
        job.points.extend(shown)
        return list(invariants.each_point_once([job], record, Counts()))

    assert not check([_point(0, 32), _point(1, 64)])
    assert check([_point(0, 32)]), "the second is gone"
    assert check([_point(0, 32), _point(2, 64)]), "a gap"
    assert check([_point(0, 32), _point(1, 32)]), "another point, and one twice"
    point = MetricPoint(name="train/loss", step=32, value=0.5, attempt=1, time=0)
    assert check([_point(0, 32), _point(1, 64)], (point, point))


def test_an_event_sent_again_counts_once_as_it_was_first_acknowledged() -> None:
    first, changed = _point(0, 32)[1], _point(0, 33)[1]
    record = _record(_accept(1, 1), _events(2, 1, 200, first), _events(3, 1, 200, changed))
    job = _job(_attempt(1), events={"att_1": [_point(0, 32)]})
    assert not list(invariants.each_point_once([job], record, Counts()))


def test_an_update_that_is_missing_from_the_series_is_a_violation() -> None:
    whole = _job(_attempt(1), events={"att_1": [_point(0, 32), _point(1, 64), _point(2, 96)]})
    assert not list(invariants.whole_series([whole], 32))
    lacking = _job(_attempt(1), events={"att_1": [_point(0, 32), _point(1, 96)]})
    assert list(invariants.whole_series([lacking], 32))


def test_a_file_that_is_not_what_the_trainer_wrote_is_a_violation() -> None:
    def check(told: str, stored: str) -> list[str]:
        line = {"t": "l", "stream": "stdout", "text": f"wrote policy.safetensors {told}"}
        job = _job(_attempt(1), events={"att_1": [(0, line)]})
        job.artifacts.append(
            ArtifactView(
                id="art_1",
                name="policy.safetensors",
                kind="result",
                sha256=SHA,
                size=1,
                step=None,
                attempt=1,
                created_at="",
                state="ready",
            )
        )
        job.digests["art_1"] = stored
        return list(invariants.files_as_written([job], Counts()))

    assert not check(SHA, SHA)
    assert check("cd" * 32, SHA)
    assert check(SHA, "cd" * 32)
    assert list(invariants.files_as_written([_job(_attempt(1))], Counts())), "a success without its policy"


def test_a_revoked_worker_that_is_still_heard_is_a_violation() -> None:
    record = _record(_events(6, 1, 200))
    assert list(invariants.silent_after_revocation(record, "wrk_1", 5.0))
    assert not list(invariants.silent_after_revocation(record, "wrk_1", 7.0))


def test_a_secret_is_found_in_a_file_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "state.db").write_bytes(b"\0" * 100 + b"canary-secret" + b"\0" * 100)
    (tmp_path / "core.log").write_text("nothing here")
    assert secrets_in(tmp_path, {"canary-secret"}) == ["sub/state.db"]


def test_a_private_file_may_hold_its_own_secret_and_nobody_else(tmp_path: Path) -> None:
    key = json.dumps({"x": "public", "d": "private-half-of-the-key"})
    (tmp_path / "credential.json").write_text(json.dumps({"v": 1, "secret": key}))
    assert secrets_of(tmp_path) == {"private-half-of-the-key"}
    assert secrets_in(tmp_path, secrets_of(tmp_path)) == []
    (tmp_path / "core.log").write_text("the key is private-half-of-the-key")
    assert secrets_in(tmp_path, secrets_of(tmp_path)) == ["core.log"]


def test_one_seed_gives_one_plan_and_the_next_gives_another() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    kinds = {fault.kind for seed in range(300) for fault in draw(seed).faults}
    assert len(kinds) == 31, "every kind of fault is drawn"


def test_a_record_reads_only_what_is_whole() -> None:
    broken = Request("POST", "/v1/poll", {"content-encoding": "gzip"}, b"no gzip", b"")
    assert broken.document == {}
    record = Record()
    record.add(Request("POST", "/v1/poll", {}, b"[1]", b""), 0.0, 200, json.dumps([1]).encode())
    (only,) = record
    assert only.answered == {}
