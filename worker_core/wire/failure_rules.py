"""What each class of failure asks for: one sentence with the cure, and whether, and where, the job is tried again.

This is the one table of both: worker, coordinator and screens read it. Nothing is tried again blindly: what another
attempt cannot cure ends the job, and what only another machine can cure goes there first.
"""

from dataclasses import dataclass
from typing import Literal

from worker_core.wire.vocabulary import FailureClass

RetryRule = Literal["never", "again", "elsewhere", "other-model"]
"""``again``: by any worker. ``elsewhere``: by another worker first. ``other-model``: never on that model of GPU again.
Each counts against the job's ``max_attempts``."""


@dataclass(frozen=True)
class Rule:
    """What helps a person, and what the coordinator does by itself."""

    cure: str
    retry: RetryRule = "never"


RULES: dict[FailureClass, Rule] = {
    "exception": Rule("Correct what the traceback names, then queue the job again."),
    "bad-spec": Rule("Correct the spec and submit it again."),
    "out-of-memory": Rule("Use fewer simulators or smaller batches, or choose a worker with more memory."),
    "gpu-out-of-memory": Rule("Use smaller batches or a smaller network, or ask for a GPU with more memory."),
    "signal": Rule("If it happens again, look at the end of the log and at the system's own log.", "again"),
    "silence": Rule("Raise limits.silence_seconds if the job rightly needs so long without a word.", "again"),
    "stalled": Rule("The log holds the stacks of the moment; look there for what the job waits for.", "again"),
    "numeric": Rule("Try a lower ppo.learning_rate, or ppo.normalize_reward where rewards are very large."),
    "device-lost": Rule("Restart that computer; if it happens again, its GPU or driver is broken.", "elsewhere"),
    "driver-mismatch": Rule("Update that computer's GPU driver, then restart it.", "elsewhere"),
    "unsupported-gpu": Rule("Install a PyTorch that supports this GPU, or use another model of GPU.", "other-model"),
    "disk-full": Rule("Free space on the worker, or raise limits.max_disk_gb if the job needs more."),
    "data-missing": Rule("Submit the job again with its files; a retry from scratch needs no checkpoint."),
    "start-failed": Rule("Run `stoker doctor` on that worker; it names what is missing.", "again"),
    "canceled": Rule("Nothing is wrong: a person cancelled it."),
}

RETRYABLE_FAILURES: tuple[FailureClass, ...] = tuple(name for name, rule in RULES.items() if rule.retry != "never")
"""Failures that another attempt may cure; all others are final."""

DEVICE_FAILURES: tuple[FailureClass, ...] = ("device-lost", "driver-mismatch")
"""Failures that say something about a GPU itself, and not about the job."""


_UNKNOWN = Rule("")
"""Nobody here knows what cures a class of a newer version, so it is not tried again."""


def rule_of(failure: str) -> Rule:
    """Return what is done about a class of failure, also of one that this version does not know."""
    return next((rule for name, rule in RULES.items() if name == failure), _UNKNOWN)


def cure_of(failure: str) -> str:
    """Return the sentence that helps; empty for a class this version does not know."""
    return rule_of(failure).cure
