"""A training that takes all it can get: every core for some minutes, then more memory than it may have."""

import os
import subprocess
import time
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

_BITE = 16 << 20
_eaten: list[bytes] = []


class StarvingPole(CartPoleEnv):
    """CartPole beside busy loops and much memory; after ``seconds`` it eats on until it is ended."""

    def __init__(self, seconds: float, hold_bytes: int) -> None:
        super().__init__()
        self._until = time.monotonic() + seconds
        if not _eaten:  # a training makes more than one simulator
            _eaten.extend(_bite() for _ in range(hold_bytes // _BITE))
            for _ in range(2 * (os.cpu_count() or 1)):
                subprocess.Popen(["sh", "-c", "while :; do :; done"])

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        if time.monotonic() > self._until:
            _eaten.append(_bite())
        return super().step(action)


def _bite() -> bytes:
    return b"x" * _BITE
