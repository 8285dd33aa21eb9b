"""Whether a GPU may be given to a job: pure rules over what is seen of it.

A device that fails at the start of three jobs in a row would fail every job of the queue within seconds; it is
quarantined until a test passes, which a person asks for or a new driver brings about. What others use, what a job left
behind, and what has not been tested since the computer slept, is held back until that is over.
"""

from dataclasses import dataclass
from typing import Literal

from worker_core.wire.codec import Message
from worker_core.wire.failure_rules import DEVICE_FAILURES
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown
from worker_core.wire.vocabulary import FailureClass, Reason

STRIKES = 3
STRIKES_AFTER_SLEEP = 2
"""A driver that did not survive the sleep of its computer fails until it is loaded anew."""
BUSY_SHARE = 0.5
"""A GPU of which others hold more than this share of memory is in use."""
FREE_FOR_S = 60.0
LEFTOVER_BYTES = 64 << 20
"""How far above where it was before the job the memory may stay."""
PROBE_AGAIN_S = 60.0

_BLAMES_DEVICE: tuple[FailureClass, ...] = (*DEVICE_FAILURES, "unsupported-gpu")
"""What a failed test says about the GPU: not that others use its memory, nor that the test could not be run."""

Tested = Literal["before-job", "asked", "after-sleep", "new-driver"]
"""Why a GPU was tested."""


@dataclass
class GpuState:
    """What is known of one GPU."""

    failures: int = 0
    """Device failures in a row."""
    quarantined: str = ""
    """What failed last, once that was once too often."""
    driver: str = ""
    slept: bool = False
    """Whether no job has trained on it since the computer woke."""
    untested: Tested | None = None
    """Why it must pass a test before any job may have it."""
    test_at: float = 0.0
    busy: bool = False
    free_since: float | None = None
    memory_limit: int | None = None
    """Where its memory must be again after a job that left some behind."""


class KeptGpu(Message):
    """The part of :class:`GpuState` that outlives the core."""

    failures: int = 0
    quarantined: str = ""
    driver: str = ""
    slept: bool = False


def kept(state: GpuState) -> KeptGpu:
    """Return what the journal keeps."""
    return KeptGpu(failures=state.failures, quarantined=state.quarantined, driver=state.driver, slept=state.slept)


def restored(found: KeptGpu) -> GpuState:
    """Return what is known of a GPU when the core starts."""
    return GpuState(found.failures, found.quarantined, found.driver, found.slept)


def observe(state: GpuState, reading: GpuShown, now: float, *, in_use: bool) -> None:
    """Take in what the driver says; ``in_use`` while a job of ours has the device."""
    if reading.driver and reading.driver != state.driver:
        if state.driver and state.quarantined:
            state.untested, state.test_at = "new-driver", now
        state.driver = reading.driver
    used, total = reading.memory_used_bytes, reading.memory_bytes
    if in_use or used is None or not total:
        return
    if state.memory_limit is not None and used <= state.memory_limit:
        state.memory_limit = None
    if used > BUSY_SHARE * total and state.memory_limit is None:
        state.busy, state.free_since = True, None
    elif state.busy:
        state.free_since = now if state.free_since is None else state.free_since
        state.busy = now - state.free_since < FREE_FOR_S


def woke(state: GpuState, now: float) -> None:
    """The computer slept: the device must show that it still works."""
    state.slept, state.untested, state.test_at = True, "after-sleep", now


def take_test(state: GpuState, why: Tested, result: ProbeResult, now: float) -> None:
    """Take in the result of a test."""
    if result.ok:
        state.untested = None
        if why in ("asked", "new-driver"):
            state.failures, state.quarantined, state.memory_limit = 0, "", None
    else:
        state.test_at = now + PROBE_AGAIN_S
        if result.failure in _BLAMES_DEVICE:
            _strike(state, result.text)
        if state.quarantined:
            state.untested = None


def job_ended(state: GpuState, failure: str | None, text: str, *, trained: bool) -> None:
    """Take in how a job ended that had the device; ``trained`` when it got any step done."""
    if failure in DEVICE_FAILURES:
        _strike(state, text.strip().split("\n", 1)[0][:200])
    elif trained:
        state.failures, state.slept = 0, False


def leftover(state: GpuState, before_bytes: int) -> None:
    """A job's memory was not given back in time."""
    state.memory_limit = before_bytes + LEFTOVER_BYTES


def hold(state: GpuState) -> Reason | None:
    """Return why no job may have this GPU now, or None."""
    if state.quarantined:
        return "gpu-quarantined"
    if state.untested is not None:
        return "gpu-untested"
    if state.memory_limit is not None:
        return "gpu-memory-held"
    return "gpu-busy" if state.busy else None


def due_test(state: GpuState, now: float) -> Tested | None:
    """Return why the GPU should be tested now, or None. One in quarantine waits for a person or a new driver."""
    return state.untested if now >= state.test_at else None


def sentence(reason: Reason, name: str, state: GpuState) -> str:
    """Return for a person why a GPU is held back, and what helps."""
    match reason:
        case "gpu-quarantined":
            again = "Test it again with `stoker doctor --retest-gpu`; a new driver is tested by itself."
            return f"{name} gets no more jobs: it failed {state.failures} times in a row ({state.quarantined}). {again}"
        case "gpu-untested":
            return f"{name} is tested before it gets a job, because the computer slept or its driver is new."
        case "gpu-memory-held":
            return f"{name} gets no job: memory of an ended job is still in use. Restarting the computer frees it."
        case _:
            return f"{name} gets no job while other programs use most of its memory; it is taken 60 s after they end."


def _strike(state: GpuState, text: str) -> None:
    state.failures += 1
    if state.failures >= (STRIKES_AFTER_SLEEP if state.slept else STRIKES):
        state.quarantined = text or "no reason given"
