"""A training that plants a forest of processes: ranks with loaders, and every way of getting out of sight."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

RANKS, LOADERS = 4, 4
PLANTED = RANKS * (1 + LOADERS) + 3
_LOADER = "read nothing < {never}"
_RANK = f"for i in {' '.join(map(str, range(LOADERS)))}; do sh -c '{_LOADER}' {{token}} & done; wait"
_PLANTING_S = 120.0


class ForestPole(CartPoleEnv):
    """CartPole, slowly, in a forest whose every process has ``token`` among its arguments and waits for ever."""

    def __init__(self, token: str) -> None:
        super().__init__()
        never = Path(os.environ["TMPDIR"], "never")
        if not never.exists():
            os.mkfifo(never)
            _plant(token, str(never))

    def step(self, action: Any) -> Any:
        time.sleep(0.003)
        return super().step(action)


def _plant(token: str, never: str) -> None:
    loader = _LOADER.format(never=never)
    for _ in range(RANKS):
        _start(_RANK.format(never=never, token=token), token)
    _start(loader, token, start_new_session=True)
    _start(f"trap '' TERM HUP INT; {loader}", token)
    # Its parent and grandparent end at once; nothing in its environment or session tells whose it is.
    subprocess.run(["setsid", "sh", "-c", f"env -i setsid sh -c '{loader}' {token} &"], check=True)
    give_up = time.monotonic() + _PLANTING_S
    while _grown(token) < PLANTED and time.monotonic() < give_up:
        time.sleep(0.2)


def _start(script: str, token: str, *, start_new_session: bool = False) -> None:
    subprocess.Popen(["sh", "-c", script, token], start_new_session=start_new_session)


def _grown(token: str) -> int:
    """Count the processes that carry the token as their last argument."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found += (entry / "cmdline").read_bytes().rstrip(b"\0").endswith(token.encode())
            except OSError:
                continue
    return found
