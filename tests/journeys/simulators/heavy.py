"""A training that holds a lot of memory, as one on a GPU does."""

import time
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class HeavyPole(CartPoleEnv):
    """CartPole, slowly, beside ``mebibytes`` of memory that is really used."""

    def __init__(self, mebibytes: int) -> None:
        super().__init__()
        self._held = [bytearray(b"\x01" * (1 << 20)) for _ in range(mebibytes)]

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return super().step(action)
