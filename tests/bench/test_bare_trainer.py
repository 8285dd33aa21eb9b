"""The bare trainer of the overhead benchmark trains as the job process does."""

import json
import subprocess
import sys
from pathlib import Path

SPEC = {
    "kind": "rl-session",
    "name": "bare",
    "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}},
    "training": {"cycles": 1, "simulators": 2, "decisions_per_cycle": 300},
    "benchmark": {"episodes_per_scenario": 1},
}


def test_the_bare_trainer_trains_to_the_end_without_a_core(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    command = [sys.executable, "-m", "bench._bare_trainer", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["steps"] == 600
    assert (tmp_path / "results" / "policy.safetensors").exists()
