"""The owner's rules in words: which of them holds jobs back, and what that waits for."""

from datetime import datetime

from app.desktop.presenter.giving_back import clock_time
from worker_core.wire.status import RuleShown, WorkerStatus

_UNKNOWN = {"in-use": "Nothing here tells whether this computer is in use: that rule is off."}
_SHORT = {
    "hours": "Outside the hours you set.",
    "in-use": "Waiting: you are using this computer.",
    "battery": "Waiting for mains power.",
    "heat": "A GPU is hot, cooling down.",
    "program": "Waiting for a program you named.",
    "metered": "The network is paid for by volume: no new job is taken.",
}


def rule_in_words(rule: str) -> str | None:
    """Return a rule's code as a sentence; None for one of a newer version."""
    return _SHORT.get(rule)


def rules_in_words(status: WorkerStatus, now: datetime) -> str:
    """Return everything the rules say now; empty when they let the worker train."""
    words = [_words(rule, now) for rule in status.owner.rules]
    if words:
        words += [_UNKNOWN[name] for name in status.owner.unknown if name in _UNKNOWN]
    return " ".join(words)


def _words(rule: RuleShown, now: datetime) -> str:
    if rule.rule == "hours" and rule.until is not None:
        return f"Paused until {clock_time(rule.until, now)}, outside the hours you set."
    if rule.rule == "heat" and rule.value is not None:
        return f"GPU {rule.value:.0f} °C, cooling down."
    if rule.rule == "program" and rule.detail:
        return f"Waiting: {rule.detail} is running."
    return _SHORT.get(rule.rule, f"Paused by your rule “{rule.rule}”.")
