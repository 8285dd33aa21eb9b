"""Runs a job spec with the trainer alone: no core, no pipe, no journal. A child of the overhead benchmark.

Prints the processor seconds of this whole process, the decisions it made, and when it had made how many of them.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from worker_core.training.__main__ import prepare_process
from worker_core.training.files import JobFolder
from worker_core.training.health import Finding
from worker_core.training.reporter import Reporter
from worker_core.training.usage import UsageMeter
from worker_core.wire.codec import encode
from worker_core.wire.frames import ArtifactReady
from worker_core.wire.plan import resolve
from worker_core.wire.spec import load_spec


class SilentReporter(Reporter):
    """Says nothing to nobody, and is never told to leave."""

    def __init__(self) -> None:
        self.said = 0
        self.points: list[tuple[float, int]] = []

    def begin(self, phase: str, step: int, share: tuple[float, float]) -> None: ...

    def tick(self, step: int, done: float, time_left: Callable[[], float | None] = float) -> None: ...

    def leaving(self) -> bool:
        return False

    def metrics(self, step: int, values: Mapping[str, object]) -> None:
        self.points.append((time.time(), step))

    def log(self, text: str) -> None: ...

    def flag(self, step: int, finding: Finding) -> None: ...

    def checkpoint(self, artifact: ArtifactReady) -> int:
        self.said += 1
        return self.said

    def checkpoint_ordered(self) -> bool:
        return False

    def result(self, artifact: ArtifactReady) -> None: ...

    def deliver_log(self, folder: Path) -> None: ...

    def is_kept(self, announced: int) -> bool:
        return True


def main(workspace: Path) -> int:
    """Train what ``spec.json`` in the workspace says."""
    prepare_process()
    from worker_core.training.rl.session import RlSession

    text = (workspace / "spec.json").read_bytes()
    plan, reporter = resolve(load_spec(text)), SilentReporter()
    RlSession(JobFolder(workspace), plan, hashlib.sha256(text).hexdigest(), reporter, UsageMeter()).run()
    times = os.times()
    end = {"cpu_seconds": times.user + times.system, "steps": plan.decisions, "points": reporter.points}
    sys.stdout.write(encode(end).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
