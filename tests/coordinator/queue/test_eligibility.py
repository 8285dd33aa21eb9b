"""Which worker fits which job."""

import pytest
from msgspec import structs

from coordinator.queue.eligibility import GIB, WorkerFacts, unfit
from worker_core.wire.spec import GpuTarget, Target

PLAIN = WorkerFacts(
    id="wrk_1",
    name="bench-1",
    scopes=frozenset({"any"}),
    kinds=frozenset({"rl-session"}),
    labels=frozenset({"night"}),
    ram_gb=32.0,
    vram_bytes=(8 * GIB, 24 * GIB),
)


@pytest.mark.parametrize(
    "target",
    [
        Target(),
        Target(worker="bench-1"),
        Target(worker="wrk_1"),
        Target(labels=("night",)),
        Target(min_ram_gb=32),
        Target(gpu=GpuTarget(count=2)),
        Target(gpu=GpuTarget(count=1, min_vram_gb=24)),
    ],
)
def test_a_worker_that_has_what_is_asked_fits(target):
    assert unfit(PLAIN, "rl-session", target) is None


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target(worker="bench-2"), "is not bench-2"),
        (Target(labels=("night", "fast")), "lacks a label of night, fast"),
        (Target(min_ram_gb=64), "has less than 64 GiB of memory"),
        (Target(gpu=GpuTarget(count=2, min_vram_gb=24)), "lacks 2 GPUs with 24 GiB"),
        (Target(gpu=GpuTarget(count=3)), "lacks 3 GPUs"),
    ],
)
def test_a_worker_that_lacks_something_is_told_what(target, words):
    assert unfit(PLAIN, "rl-session", target) == words


def test_scopes_and_kinds_both_have_to_allow_a_job():
    assert unfit(PLAIN, "repository", Target()) == "cannot run repository jobs"
    narrow = structs.replace(PLAIN, scopes=frozenset({"repository"}))
    assert unfit(narrow, "rl-session", Target()) == "may not take rl-session jobs"
    exact = structs.replace(PLAIN, scopes=frozenset({"rl-session"}))
    assert unfit(exact, "rl-session", Target()) is None
    none = structs.replace(PLAIN, scopes=frozenset())
    assert unfit(none, "rl-session", Target()) is not None
