"""Three schedules of faults with fixed seeds: real coordinator, real cores, real jobs, checked from outside."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.plan import draw
from tests.faults.proxy import FaultProxy
from tests.faults.schedule import Schedule
from tests.faults.site import Blueprint

pytestmark = pytest.mark.xdist_group("campaign")
SEEDS = (145, 287, 324)
"""Between them: a killed core and coordinator, stops on both sides, cut lines, lost and torn answers, a full disk."""


@pytest.fixture(scope="module")
def blueprint() -> Iterator[Blueprint]:
    with tempfile.TemporaryDirectory(prefix="stk-") as name, FaultProxy() as proxy:
        yield Blueprint(Path(name) / "blueprint", proxy)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_twice_or_left_behind_whatever_goes_wrong(seed: int, blueprint: Blueprint) -> None:
    outcome = Schedule(draw(seed), blueprint, blueprint.folder.with_name(f"s{seed}")).run()
    assert outcome.violations == []
    assert sum(outcome.faults.values()) > 0
    assert outcome.counts.points > 0
