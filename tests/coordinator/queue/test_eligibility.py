"""Which worker fits which job."""

import pytest
from msgspec import structs

from coordinator.queue.eligibility import GIB, Needs, WorkerFacts, needs_of, unfit, without_gpus
from worker_core.wire.pairing import Gpu
from worker_core.wire.spec import GpuTarget, parse_spec

PLAIN = WorkerFacts(
    id="wrk_1",
    name="bench-1",
    scopes=frozenset({"any"}),
    kinds=frozenset({"rl-session"}),
    labels=frozenset({"night"}),
    ram_gb=32.0,
    gpus=(
        Gpu(uuid="GPU-1", name="Small", memory_bytes=8 * GIB),
        Gpu(uuid="GPU-2", name="Large", memory_bytes=24 * GIB),
    ),
)


@pytest.mark.parametrize(
    "target",
    [
        Needs(),
        Needs(worker="bench-1"),
        Needs(worker="wrk_1"),
        Needs(labels=("night",)),
        Needs(min_ram_gb=32),
        Needs(gpu=GpuTarget(count=2)),
        Needs(gpu=GpuTarget(count=1, min_vram_gb=24)),
    ],
)
def test_a_worker_that_has_what_is_asked_fits(target):
    assert unfit(PLAIN, "rl-session", target) is None


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Needs(worker="bench-2"), "is not bench-2"),
        (Needs(labels=("night", "fast")), "lacks a label of night, fast"),
        (Needs(min_ram_gb=64), "has less than 64 GiB of memory"),
        (Needs(gpu=GpuTarget(count=2, min_vram_gb=24)), "lacks 2 GPUs with 24 GiB"),
        (Needs(gpu=GpuTarget(count=3)), "lacks 3 GPUs"),
    ],
)
def test_a_worker_that_lacks_something_is_told_what(target, words):
    assert unfit(PLAIN, "rl-session", target) == words


def test_scopes_and_kinds_both_have_to_allow_a_job():
    assert unfit(PLAIN, "repository", Needs()) == "cannot run repository jobs"
    narrow = structs.replace(PLAIN, scopes=frozenset({"repository"}))
    assert unfit(narrow, "rl-session", Needs()) == "may not take rl-session jobs"
    exact = structs.replace(PLAIN, scopes=frozenset({"rl-session"}))
    assert unfit(exact, "rl-session", Needs()) is None
    none = structs.replace(PLAIN, scopes=frozenset())
    assert unfit(none, "rl-session", Needs()) is not None


def test_a_job_that_asks_for_the_network_goes_only_where_the_owner_allows_it():
    spec = {"kind": "rl-session", "name": "n", "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}}}
    asks = needs_of(parse_spec({**spec, "network": "any", "target": {"worker": "bench-1"}}))
    assert asks == Needs(worker="bench-1", network=True)
    assert unfit(PLAIN, "rl-session", asks) == "does not let jobs use the network"
    assert unfit(structs.replace(PLAIN, network=True), "rl-session", asks) is None
    assert unfit(PLAIN, "rl-session", needs_of(parse_spec(spec))) is None


def test_gpus_that_are_held_back_or_of_a_model_without_kernels_do_not_count():
    one = Needs(gpu=GpuTarget(count=1))
    assert unfit(without_gpus(PLAIN, ["GPU-1"]), "rl-session", one) is None
    held = unfit(without_gpus(PLAIN, ["GPU-1", "GPU-2"]), "rl-session", one)
    assert held == "lacks a GPU (its own is held back; it shows why)"
    assert unfit(without_gpus(PLAIN, ["GPU-1", "GPU-2"]), "rl-session", Needs()) is None
    assert unfit(PLAIN, "rl-session", Needs(unfit_gpus=("Small",))) is None
    without = "has only GPUs that this job does not run on (Large, Small)"
    assert unfit(PLAIN, "rl-session", Needs(unfit_gpus=("Large", "Small"))) == without
    assert unfit(structs.replace(PLAIN, gpus=()), "rl-session", Needs(unfit_gpus=("Small",))) is None
