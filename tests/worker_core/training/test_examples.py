"""The examples run as they stand, only shorter; what they learn is gated by bench/learn.py."""

import tomllib
from pathlib import Path

import pytest
from training_core import JobShop

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", ["cartpole.toml", "lunar_lander.toml", "my_env/job.toml"])
def test_an_example_trains_without_a_warning(shop: JobShop, name: str) -> None:
    path = EXAMPLES / name
    spec = tomllib.loads(path.read_text())
    spec["training"] |= {"total_steps": 4_096}
    spec["benchmark"] |= {"episodes_per_scenario": 2}
    code = {file: (path.parent / file).read_text() for file in spec.get("files", [])}
    job = shop.run(spec, code)
    assert job.done().outcome == "succeeded", job.output()
    assert [line.partition(",")[0] for line in job.logs()] == ["learning with NumPy"]
    assert job.output() == ""
