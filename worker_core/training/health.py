"""Whether training is in good health: pure rules over what each update tells.

A loss or a weight that is no number, and gradients far above their usual length, are found here, once each time they
begin. What is done about it stands in the job spec. All of the state goes into checkpoints, so that a resumed job finds
the same things at the same steps.
"""

import math
from statistics import median

import msgspec

from worker_core.wire.spec import HealthRule
from worker_core.wire.vocabulary import HealthAction, HealthFlag

MAX_ROLLBACKS = 3
WINDOW = 50
"""Updates whose gradient norms make up the usual one."""
LEAST = 20
"""Updates before a norm is judged: the first ones differ widely."""
EXPLODED = 100.0
"""So many times the usual norm is an explosion; in runs that learn it stayed below five times (decision 0040)."""
LEARNING_RATE_SHARE = 0.5
"""What a roll back leaves of the learning rate: with the same one the same steps would lead to the same place."""


class HealthState(msgspec.Struct):
    """What is remembered from update to update."""

    norms: list[float] = []
    raised: list[HealthFlag] = []
    """What was found and has not passed yet."""
    rollbacks: int = 0
    learning_rate_share: float = 1.0


class Update(msgspec.Struct, frozen=True):
    """What one update told."""

    loss: float
    grad_norm: float
    weights_finite: bool = True


class Finding(msgspec.Struct, frozen=True):
    """Something to tell, and what to do about it."""

    flag: HealthFlag
    text: str
    action: HealthAction


def judge(state: HealthState, update: Update, rule: HealthRule) -> Finding | None:
    """Return what began with this update, and take the update into ``state``."""
    flag = _flag_of(state, update)
    is_new = flag is not None and flag not in state.raised
    text = "" if flag is None else _sentence(flag, update, state)
    if math.isfinite(update.grad_norm):
        state.norms = [*state.norms, update.grad_norm][-WINDOW:]
    state.raised = [] if flag is None else [flag]
    return Finding(flag, text, _action(flag, state, rule)) if flag is not None and is_new else None


def rolled_back(state: HealthState) -> None:
    """Note that the last good checkpoint is in force again."""
    state.rollbacks += 1
    state.learning_rate_share *= LEARNING_RATE_SHARE
    state.raised = []


def _flag_of(state: HealthState, update: Update) -> HealthFlag | None:
    if not (math.isfinite(update.loss) and update.weights_finite and math.isfinite(update.grad_norm)):
        return "nan"
    usual = usual_norm(state)
    return "gradient" if usual is not None and update.grad_norm > EXPLODED * usual else None


def usual_norm(state: HealthState) -> float | None:
    """Return the median of the recent norms, once there are enough of them."""
    usual = median(state.norms) if len(state.norms) >= LEAST else 0.0
    return usual if usual > 0 else None


def _action(flag: HealthFlag, state: HealthState, rule: HealthRule) -> HealthAction:
    asked = rule.nan if flag == "nan" else rule.gradient
    return "stop" if asked == "rollback" and state.rollbacks >= MAX_ROLLBACKS else asked


def _sentence(flag: HealthFlag, update: Update, state: HealthState) -> str:
    if flag == "gradient":
        usual = usual_norm(state) or 0.0
        return f"the gradients exploded: their norm is {update.grad_norm:.3g}, usually it is about {usual:.3g}"
    if not math.isfinite(update.loss):
        loss = "NaN" if math.isnan(update.loss) else "infinite"
        return f"training diverged: the loss is {loss}, so nothing is learned from it"
    what = "a weight" if not update.weights_finite else "a gradient"
    return f"training diverged: {what} is no number any more"
