"""A pole on a cart for fault campaigns: takes its time, hashes what the trainer wrote, goes wrong on request."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

LOOK_EVERY = 8


class PatientPole(CartPoleEnv):
    """CartPole with a pause in each step. ``goes_wrong`` says what happens at step ``at`` of this process."""

    _told: set[Path] = set()
    _steps = 0

    def __init__(self, step_s: float = 0.002, goes_wrong: str = "", at: int = 0) -> None:
        super().__init__()
        self._step_s, self._goes_wrong, self._at = step_s, goes_wrong, at

    def step(self, action: Any) -> Any:
        time.sleep(self._step_s)
        PatientPole._steps += 1
        if PatientPole._steps % LOOK_EVERY == 0:
            _tell_hashes(self._told)
        if PatientPole._steps == 1:
            print("environment", dict(os.environ), flush=True)
        if PatientPole._steps == self._at:
            _go_wrong(self._goes_wrong)
        return super().step(action)

    def close(self) -> None:
        _tell_hashes(self._told)
        super().close()


def _tell_hashes(told: set[Path]) -> None:
    """Print the hash of every finished file of the workspace, read from the disk and not asked of the trainer."""
    for folder in ("checkpoints", "results"):
        found = Path(folder).glob("[!.]*") if Path(folder).is_dir() else ()
        for path in sorted(set(found) - told):
            if path.name in ("latest.json", "session.jsonl"):  # they are written on after this look
                continue
            try:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            except FileNotFoundError:
                continue  # an old checkpoint, removed just now
            told.add(path)
            print(f"wrote {path.name} {digest}", flush=True)


def _go_wrong(how: str) -> None:
    match how:
        case "raise":
            raise ValueError("this simulator was told to fail")
        case "memory":
            raise MemoryError
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(7)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _start_stubborn_child()
        case _:
            return


def _start_stubborn_child() -> None:
    """Leave a grandchild in a session of its own that ignores TERM and whose parent has died."""
    sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    fork = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", fork], timeout=60, check=True)
