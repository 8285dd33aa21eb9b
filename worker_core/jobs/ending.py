"""What the end of a job means: pure, from what was seen of it."""

import signal
from dataclasses import dataclass

from worker_core.jobs.watch import Cause
from worker_core.journal.records import AttemptEnd
from worker_core.wire.codec import Message
from worker_core.wire.durations import format_duration
from worker_core.wire.failure_rules import cure_of
from worker_core.wire.frames import Done, JobError, Usage
from worker_core.wire.vocabulary import FailureClass
from worker_core.wire.work import Limits

_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
"""Signals that a process is sent; any other it brings upon itself, such as SIGPIPE or SIGSEGV."""


class Seen(Message):
    """All that was seen of a job until its tree was gone."""

    limits: Limits
    usage: Usage
    done: Done | None = None
    exit: int | None = None
    cause: Cause | None = None
    killed: bool = False
    trouble: str = ""
    """Why its frames, or the files it announced, could not be taken."""
    spoke: bool = False
    """Whether any frame came."""
    out_of_memory: bool = False
    """Whether the system ended processes for want of memory meanwhile."""
    max_memory_bytes: int = 0
    max_processes: int = 0
    """What its tree might use."""
    tail: str = ""
    """Its last lines."""
    leftovers: int = 0
    """Processes of it that ran on after its main process and were killed."""
    survivors: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Failure:
    failure: FailureClass
    message: str


def classify(seen: Seen) -> AttemptEnd:
    """Return how the attempt ended."""
    if seen.done and seen.done.outcome in ("succeeded", "failed") and seen.cause not in ("broken", "full"):
        return _end_by_own_word(seen, seen.done)
    failure = _failure_by_rule(seen)
    if failure is None and seen.cause == "asked":
        return _end(seen, "stopped", None)
    return _end(seen, "finished", failure or _failure(seen))


def last_words(end: AttemptEnd) -> list[str]:
    """Return what the log of a job says last: what failed, what helps, and what a person should know besides."""
    error = end.error
    told = [error.message, cure_of(error.failure)] if error is not None else []
    return [words for words in (*told, end.note) if words]


def _end_by_own_word(seen: Seen, done: Done) -> AttemptEnd:
    return AttemptEnd(
        how="finished",
        outcome="succeeded" if done.outcome == "succeeded" else "failed",
        error=done.error,
        exit=seen.exit,
        usage=done.usage,
        forced=seen.killed,
        note=_note(seen),
    )


def _failure_by_rule(seen: Seen) -> _Failure | None:
    limits = seen.limits
    if seen.cause == "silence":
        return _Failure("silence", f"The job said nothing for {format_duration(limits.silence_s)} and was ended.")
    if seen.cause == "stalled":
        return _Failure("stalled", "The job stood still: it made no step any more, and was stopped.")
    if seen.cause == "runtime":
        longest = format_duration(limits.max_runtime_s)
        return _Failure("exception", f"The job ran longer than the {longest} that its spec allows and was stopped.")
    if seen.cause == "broken":
        return _Failure("exception", f"The job wrote something that cannot be used: {seen.trouble}.")
    if seen.cause == "full":
        return _Failure("disk-full", f"The disk of the worker is full: {seen.trouble}.")
    if seen.cause == "memory":
        return _Failure("out-of-memory", f"The job used more than the {_gigabytes(seen.max_memory_bytes)} it may have.")
    if seen.cause == "processes":
        text = f"The job started more than the {seen.max_processes:,} processes it may have and was ended."
        return _Failure("exception", text)
    if seen.cause == "disk":
        room = _gigabytes(limits.max_disk_bytes)
        text = f"The job wrote more than the {room} that its spec allows, or where it cannot be measured"
        return _Failure("disk-full", f"{text}, and was stopped.")
    return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _failure(seen: Seen) -> _Failure:
    code = seen.exit
    if seen.done and seen.cause == "left":
        # Counted as a failure: a job that ends itself this way each time would otherwise be tried for ever.
        return _Failure("signal", "The job was ended by a signal that did not come from the worker; it saved its work.")
    if code is not None and code < 0:
        return _signal_failure(-code, seen)
    if not seen.spoke:
        return _Failure("start-failed", f"The job process ended with exit code {code} before it said anything.")
    if code == 0:
        return _Failure("exception", "The job process left without saying how the job ended.")
    return _Failure("exception", f"The job process ended with exit code {code}.")


def _signal_failure(number: int, seen: Seen) -> _Failure:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if not seen.spoke and name not in _FROM_OUTSIDE:
        return _Failure("start-failed", f"The job process was ended by {name} before it said anything.")
    if seen.out_of_memory and name == "SIGKILL":
        whose = f"the computer's, or the {_gigabytes(seen.max_memory_bytes)} that the job may have"
        return _Failure("out-of-memory", f"The system ended the job because memory ran out: {whose}.")
    return _Failure("signal", f"The job process was ended by {name}.")


def _end(seen: Seen, how: str, failure: _Failure | None) -> AttemptEnd:
    error = failure and JobError(failure=failure.failure, message=failure.message, traceback=seen.tail)
    return AttemptEnd(
        how="stopped" if how == "stopped" else "finished",
        outcome="failed" if failure else None,
        error=error,
        exit=seen.exit,
        usage=seen.done.usage if seen.done else seen.usage,
        forced=seen.killed,
        note=_note(seen),
    )


def _note(seen: Seen) -> str:
    if seen.survivors:
        pids = ", ".join(str(pid) for pid in seen.survivors)
        return f"Processes of the job could not be ended: {pids}."
    if seen.leftovers and not seen.killed:
        return f"The job left {seen.leftovers} process(es) running in the background; they were ended."
    return ""
