"""What a fault proxy does to the requests that pass it: one rule says whose, how often, and which fault."""

import random
import re
from dataclasses import dataclass, field
from typing import Literal

Harm = Literal[
    "blackhole",  # nothing arrives and nothing answers, until the rule is taken away; then the line is dead
    "delay",  # request and answer are each held back for `seconds`
    "reset",  # the line is reset before the request arrives
    "drop-reply",  # the request has its effect, its answer is lost
    "cut-reply",  # the answer ends after `count` bytes
    "duplicate",  # the same bytes arrive twice
    "portal",  # something else answers: a log-in page with 200, a proxy's 403, JSON without our header
    "throttle",  # the answer trickles, `count` bytes every `seconds`
]

PORTALS = (
    (200, "text/html", b"<html><body>Please log in to this network.</body></html>"),
    (403, "text/html", b"<html><body>Blocked by the proxy.</body></html>"),
    (200, "application/json", b'{"ok": true}'),
    (200, "application/json", b'{"control": {"gen'),
    (401, "application/problem+json", b'{"code": "worker-revoked", "action": "wipe", "status": 401}'),
    (404, "application/json", b""),
    (502, "text/html", b""),
)
"""What stands between people and the internet, and answers in the place of those who were asked."""


@dataclass(frozen=True)
class Rule:
    """A fault for some of the requests."""

    harm: Harm
    paths: str = ""
    """A regular expression that the path must contain; empty means every path."""
    worker: str | None = None
    """Only requests of this worker (its id); None means everybody's."""
    share: float = 1.0
    seconds: float = 0.2
    count: int = 40
    at_most: int | None = None
    """How many requests are hit before the rule is spent."""


@dataclass
class RuleBook:
    """The rules in force, and a count of what they did. Changed from any thread, asked by the proxy's own."""

    seed: int = 0
    rules: tuple[Rule, ...] = ()
    hits: dict[str, int] = field(default_factory=dict[str, int])
    _spent: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def put(self, *rules: Rule) -> None:
        """Let exactly these rules be in force from now on."""
        self._spent = {}
        self.rules = rules

    def add(self, rule: Rule) -> None:
        """Put one more rule in force."""
        self.rules = (*self.rules, rule)

    def remove(self, rule: Rule) -> None:
        """Take one rule away."""
        self.rules = tuple(other for other in self.rules if other is not rule)

    def holds(self, rule: Rule) -> bool:
        """Whether a rule is still in force."""
        return any(other is rule for other in self.rules)

    def choose(self, path: str, worker: str | None) -> Rule | None:
        """Return the first rule that hits this request, and count it."""
        for rule in self.rules:
            if self._hits(rule, path, worker):
                self.hits[rule.harm] = self.hits.get(rule.harm, 0) + 1
                self._spent[id(rule)] = self._spent.get(id(rule), 0) + 1
                return rule
        return None

    def wall(self, path: str, worker: str | None) -> Rule | None:
        """Return the blackhole that an answer on its way meets."""
        walls = (rule for rule in self.rules if rule.harm == "blackhole" and rule.share >= 1)
        return next((rule for rule in walls if self._hits(rule, path, worker)), None)

    def portal(self) -> tuple[int, str, bytes]:
        """Return an answer of somebody else."""
        return self._random.choice(PORTALS)

    def _hits(self, rule: Rule, path: str, worker: str | None) -> bool:
        if rule.worker is not None and rule.worker != worker:
            return False
        if rule.at_most is not None and self._spent.get(id(rule), 0) >= rule.at_most:
            return False
        return re.search(rule.paths, path) is not None and self._random.random() < rule.share
