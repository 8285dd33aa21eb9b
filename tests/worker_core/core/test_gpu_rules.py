"""When a GPU may be given to a job: three strikes, memory, sleep and new drivers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.core.gpu_needs import GpuNeed, gpu_need
from worker_core.core.gpu_rules import (
    FREE_FOR_S,
    LEFTOVER_BYTES,
    STRIKES,
    GpuState,
    due_test,
    hold,
    job_ended,
    kept,
    leftover,
    observe,
    restored,
    sentence,
    take_test,
    woke,
)
from worker_core.wire.codec import decode, encode
from worker_core.wire.probe import ProbeResult
from worker_core.wire.status import GpuShown
from worker_core.wire.vocabulary import FailureClass

PASSED = ProbeResult(ok=True)
FAILED = ProbeResult(ok=False, failure="device-lost", text="CUDA unknown error")
GIB = 1 << 30


def reading(used_gib: float = 1.0, driver: str = "550.1") -> GpuShown:
    return GpuShown(
        uuid="GPU-1", name="Test GPU", memory_bytes=16 * GIB, memory_used_bytes=int(used_gib * GIB), driver=driver
    )


def quarantined() -> GpuState:
    state = GpuState(driver="550.1")
    for _ in range(STRIKES):
        take_test(state, "before-job", FAILED, 0.0)
    assert hold(state) == "gpu-quarantined"
    return state


def test_three_device_failures_in_a_row_are_once_too_often() -> None:
    state = GpuState()
    for strikes in range(1, STRIKES):
        job_ended(state, "device-lost", "CUDA error: unspecified launch failure", trained=False)
        assert (state.failures, hold(state)) == (strikes, None)
    take_test(state, "before-job", FAILED, 0.0)
    assert hold(state) == "gpu-quarantined"
    assert "CUDA unknown error" in sentence("gpu-quarantined", "Test GPU", state)
    assert "--retest-gpu" in sentence("gpu-quarantined", "Test GPU", state)


@pytest.mark.parametrize("failure", ["start-failed", "gpu-out-of-memory"])
def test_a_test_that_says_nothing_about_the_device_does_not_count(failure: FailureClass) -> None:
    state = GpuState(failures=2)
    woke(state, 0.0)
    take_test(state, "after-sleep", ProbeResult(ok=False, failure=failure), 0.0)
    assert (state.failures, hold(state)) == (2, "gpu-untested")
    assert due_test(state, 60.0) == "after-sleep"


def test_a_job_that_trained_ends_the_row_and_a_test_alone_does_not() -> None:
    state = GpuState(failures=2)
    take_test(state, "before-job", PASSED, 0.0)
    assert state.failures == 2
    job_ended(state, "exception", "", trained=True)
    assert state.failures == 0


@pytest.mark.parametrize("failure", ["exception", "bad-spec", "gpu-out-of-memory", "unsupported-gpu", "numeric", None])
def test_what_is_the_jobs_own_fault_is_not_the_devices(failure: None) -> None:
    state = GpuState(failures=2)
    job_ended(state, failure, "", trained=False)
    assert (state.failures, hold(state)) == (2, None)


def test_after_sleep_a_device_is_tested_before_any_claim_and_has_two_tries() -> None:
    state = GpuState()
    woke(state, 100.0)
    assert hold(state) == "gpu-untested"
    assert due_test(state, 100.0) == "after-sleep"
    take_test(state, "after-sleep", FAILED, 100.0)
    assert hold(state) == "gpu-untested"
    assert due_test(state, 130.0) is None
    assert due_test(state, 160.0) == "after-sleep"
    take_test(state, "after-sleep", FAILED, 160.0)
    assert hold(state) == "gpu-quarantined"
    assert due_test(state, math.inf) is None


def test_jobs_that_die_of_the_driver_twice_after_sleep_end_in_quarantine() -> None:
    state = GpuState()
    woke(state, 0.0)
    take_test(state, "after-sleep", PASSED, 1.0)
    for expected in (None, "gpu-quarantined"):
        job_ended(state, "device-lost", "CUDA unknown error", trained=False)
        assert hold(state) == expected


def test_quarantine_ends_when_a_person_asks_and_the_device_passes() -> None:
    state = quarantined()
    take_test(state, "asked", FAILED, 1.0)
    assert hold(state) == "gpu-quarantined"
    take_test(state, "asked", PASSED, 2.0)
    assert (hold(state), state.failures) == (None, 0)


def test_a_new_driver_is_tested_by_itself_and_only_once() -> None:
    for result, after in ((PASSED, None), (FAILED, "gpu-quarantined")):
        state = quarantined()
        observe(state, reading(driver="550.1"), 1.0, in_use=False)
        assert due_test(state, 1.0) is None
        observe(state, reading(driver="560.2"), 2.0, in_use=False)
        assert due_test(state, 2.0) == "new-driver"
        take_test(state, "new-driver", result, 2.0)
        assert hold(state) == after
        assert due_test(state, math.inf) is None


def test_a_device_that_others_use_is_taken_when_it_was_free_for_a_minute() -> None:
    state = GpuState()
    observe(state, reading(14.4), 0.0, in_use=False)
    assert hold(state) == "gpu-busy"
    observe(state, reading(1), 10.0, in_use=False)
    observe(state, reading(14.4), 40.0, in_use=False)
    observe(state, reading(1), 50.0, in_use=False)
    observe(state, reading(1), 50.0 + FREE_FOR_S - 1, in_use=False)
    assert hold(state) == "gpu-busy"
    observe(state, reading(1), 50.0 + FREE_FOR_S, in_use=False)
    assert hold(state) is None


def test_what_our_own_job_uses_is_not_taken_for_others() -> None:
    state = GpuState()
    observe(state, reading(15), 0.0, in_use=True)
    assert hold(state) is None


def test_memory_that_a_job_left_behind_holds_the_device_until_it_is_back() -> None:
    state = GpuState()
    leftover(state, 1 * GIB)
    observe(state, reading(3), 0.0, in_use=False)
    assert hold(state) == "gpu-memory-held"
    observe(state, reading(1 + LEFTOVER_BYTES / GIB), 1.0, in_use=False)
    assert hold(state) is None


def test_a_driver_that_gives_no_memory_figures_holds_nothing_back() -> None:
    state = GpuState()
    observe(state, GpuShown(uuid="GPU-1", name="old"), 0.0, in_use=False)
    assert hold(state) is None


def test_quarantine_outlives_the_core() -> None:
    state = quarantined()
    again = restored(decode(encode(kept(state)), type(kept(state))))
    assert (hold(again), again.failures, again.driver) == ("gpu-quarantined", STRIKES, "550.1")


EVENTS = st.sampled_from(["test passes", "test fails", "job loses it", "job trains", "sleep", "asked passes", "look"])


@given(st.lists(EVENTS, max_size=60))
def test_a_device_in_quarantine_leaves_it_only_by_a_test_that_was_asked_for(events: list[str]) -> None:
    state, now = GpuState(driver="550.1"), 0.0
    for event in events:
        before, now = hold(state), now + 30.0
        if event in ("test passes", "test fails"):
            take_test(state, due_test(state, now) or "before-job", PASSED if event == "test passes" else FAILED, now)
        elif event in ("job loses it", "job trains"):
            job_ended(state, "device-lost" if event == "job loses it" else None, "gone", trained=True)
        elif event == "sleep":
            woke(state, now)
        elif event == "asked passes":
            take_test(state, "asked", PASSED, now)
        observe(state, reading(), now, in_use=False)
        if before == "gpu-quarantined" and event != "asked passes":
            assert hold(state) == "gpu-quarantined"
        assert state.quarantined or state.failures < STRIKES


@pytest.mark.parametrize(
    ("spec", "need"),
    [
        ("{}", GpuNeed()),
        ("no JSON", GpuNeed()),
        ('{"training": {"device": "cpu"}}', GpuNeed(count=0)),
        ('{"training": {"device": "cuda"}}', GpuNeed(1, must=True)),
        ('{"target": {"gpu": {"count": 2, "min_vram_gb": 8}}}', GpuNeed(2, must=True, min_vram_bytes=8 * GIB)),
        ('{"target": {"gpu": {"count": 1}}, "training": {"device": "cpu"}}', GpuNeed(1, must=True)),
    ],
)
def test_what_a_spec_asks_for(spec: str, need: GpuNeed) -> None:
    assert gpu_need(spec) == need
