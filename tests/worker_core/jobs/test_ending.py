"""What the end of a job means."""

import msgspec
import pytest

from worker_core.jobs.ending import Seen, classify
from worker_core.wire.frames import Done, JobError, Usage
from worker_core.wire.work import Limits

LIMITS = Limits(max_runtime_s=7200, max_disk_bytes=10**9, stop_grace_s=10, silence_s=300)
RUNNING = Seen(limits=LIMITS, usage=Usage(seconds=5), spoke=True, exit=0, tail="last words")
SUCCEEDED = Done(outcome="succeeded")
STOPPED = Done(outcome="stopped", usage=Usage(steps=9))


def seen(**changes: object) -> Seen:
    return msgspec.structs.replace(RUNNING, **changes)


@pytest.mark.parametrize(
    ("what", "how", "failure"),
    [
        (seen(done=SUCCEEDED), "finished", None),
        (seen(done=SUCCEEDED, cause="asked"), "finished", None),
        (seen(done=SUCCEEDED, exit=-9, killed=True, cause="asked"), "finished", None),
        (seen(done=STOPPED, cause="asked"), "stopped", None),
        (seen(done=STOPPED, cause="left"), "finished", "signal"),
        (seen(done=SUCCEEDED, cause="left"), "finished", None),
        (seen(cause="asked", killed=True, exit=-9), "stopped", None),
        (seen(cause="asked", exit=1), "stopped", None),
        (seen(cause="asked", killed=True, exit=None, survivors=(7,)), "stopped", None),
        (seen(cause="silence", killed=True, exit=-9), "finished", "silence"),
        (seen(cause="runtime", done=STOPPED), "finished", "exception"),
        (seen(cause="disk", done=STOPPED), "finished", "disk-full"),
        (seen(cause="full", killed=True, exit=-9, trouble="no space"), "finished", "disk-full"),
        (seen(cause="broken", done=SUCCEEDED, trouble="x"), "finished", "exception"),
        (seen(exit=-9), "finished", "signal"),
        (seen(exit=-9, out_of_memory=True), "finished", "out-of-memory"),
        (seen(exit=-11, out_of_memory=True), "finished", "signal"),
        (seen(exit=-200), "finished", "signal"),
        (seen(exit=3), "finished", "exception"),
        (seen(exit=3, spoke=False), "finished", "start-failed"),
        (seen(exit=0, spoke=False), "finished", "start-failed"),
        (seen(exit=-13, spoke=False), "finished", "start-failed"),
        (seen(exit=-11, spoke=False), "finished", "start-failed"),
        (seen(exit=-9, spoke=False), "finished", "signal"),
        (seen(exit=-9, spoke=False, out_of_memory=True), "finished", "out-of-memory"),
        (seen(exit=-15, spoke=False), "finished", "signal"),
        (seen(exit=-13), "finished", "signal"),
        (seen(exit=-13, spoke=False, cause="asked"), "stopped", None),
        (seen(exit=0), "finished", "exception"),
        (seen(exit=75), "finished", "exception"),
        (seen(done=Done(outcome="failed", error=JobError(failure="bad-spec", message="m"))), "finished", "bad-spec"),
    ],
)
def test_each_way_to_end_has_its_class(what: Seen, how: str, failure: str | None) -> None:
    end = classify(what)
    assert end.how == how
    assert (end.error.failure if end.error else None) == failure
    assert end.outcome == (None if how == "stopped" else "failed" if failure else "succeeded")


def test_a_failure_that_we_found_carries_the_last_lines() -> None:
    end = classify(seen(exit=3))
    assert end.error is not None
    assert end.error.traceback == "last words"
    assert end.usage.seconds == 5


def test_a_job_that_dies_at_its_imports_did_not_start_and_shows_its_last_lines() -> None:
    end = classify(seen(exit=-13, spoke=False, tail="ModuleNotFoundError: No module named 'torch'"))
    assert end.error is not None
    assert (end.error.failure, end.error.traceback) == ("start-failed", "ModuleNotFoundError: No module named 'torch'")
    assert "SIGPIPE before it said anything" in end.error.message


def test_the_limits_are_named_in_words() -> None:
    end = classify(seen(cause="silence", killed=True, exit=-9))
    assert end.error is not None
    assert "5 min" in end.error.message


def test_processes_that_could_not_be_ended_are_named() -> None:
    assert "7, 8" in classify(seen(cause="asked", killed=True, survivors=(7, 8))).note
