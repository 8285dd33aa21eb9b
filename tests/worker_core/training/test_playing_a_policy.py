"""The lines of docs/playing-a-policy.md, run as a person would run them, on a policy that a job has left."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from training_core import JobShop, quick_spec

PAGE = Path(__file__).parents[3] / "docs" / "playing-a-policy.md"


def test_the_documented_lines_play_the_policy_to_the_return_its_benchmark_names(shop: JobShop) -> None:
    job = shop.run(quick_spec())
    lines = PAGE.read_text().split("```python\n")[1].split("```")[0]
    results = job.workspace / "results"
    played = subprocess.run(
        [sys.executable, "-c", lines], cwd=results, capture_output=True, text=True, timeout=60, check=False
    )
    assert played.stderr == ""
    first = json.loads((results / "benchmark.json").read_text())["final"]["policy"]["reset"]["episodes"][0]
    assert first["seed"] == 1000
    assert float(played.stdout) == pytest.approx(first["return"])
