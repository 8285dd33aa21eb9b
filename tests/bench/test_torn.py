"""A job killed around the saves of its checkpoints always goes on from a whole one."""

from pathlib import Path

from bench.torn import measure


async def test_a_job_killed_five_times_around_a_save_ends_like_one_that_was_never_killed(tmp_path: Path) -> None:
    tally = await measure(tmp_path / "home", 5, 3, lambda text: None)
    assert (tally.kills, tally.valid, tally.faults) == (5, 5, [])
