"""A pole on a cart that takes its time, so that a job lasts as long on a fast machine as on a busy one."""

import time
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

STEP_S = 0.003


class PacedPole(CartPoleEnv):
    """CartPole with a pause in each step."""

    def step(self, action: Any) -> Any:
        time.sleep(STEP_S)
        return super().step(action)
