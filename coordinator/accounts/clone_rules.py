"""Whether a worker that connects is the one we know, started anew, or a second machine with a copy of its key.

Each start of a core has an id of its own, on its disk before it is sent, and names the ids before it that we may hold
as current: the last that we confirmed and every one since. So an honest worker's list always holds our current one,
whatever was lost or crashed in between, and a copy's list lacks it as soon as either of the two has moved on. What is
then left are copies whose other half is silent, and those are told from a reboot by time. Pure: a standing, a
newcomer and a moment in, a verdict out.
"""

from dataclasses import dataclass, field
from typing import Literal

from worker_core.wire.codec import Message

Rule = Literal["unknown-start", "replaced-start", "second-boot", "repeated-beat"]

WHY: dict[Rule, str] = {
    "unknown-start": "a machine that knows nothing of the present connection used the same credential",
    "replaced-start": "a start of this worker that a newer one had replaced called again",
    "second-boot": "another machine kept asking for the connection while this one was alive",
    "repeated-beat": "two different heartbeats had the same number, as after copying a running machine",
}


@dataclass(frozen=True)
class Numbers:
    """Times of the rules, in seconds."""

    late_s: float = 45.0
    """A request of a start that was replaced may be this late; it is also when a silent worker counts as gone."""
    knock_s: float = 300.0
    """How long another boot may ask for the connection of a worker that is alive."""

    @property
    def pause_s(self) -> float:
        """A pause between two knocks after which they are no longer one."""
        return max(2 * 60.0 + self.late_s, self.knock_s / 2)


class Knock(Message):
    """Another boot that asks for the connection of a worker that is alive."""

    boot_id: str
    since: float
    last: float


@dataclass(frozen=True)
class Incumbent:
    """The start of the worker that holds the present connection."""

    instance_id: str
    boot_id: str
    previous: frozenset[str]
    """The starts before it that it named."""
    begun_at: float
    alive: bool
    restored: bool = False
    """The connection stems from before a restore of the coordinator, so the worker may long have moved on."""


@dataclass(frozen=True)
class Newcomer:
    """A start of the worker that asks for the connection."""

    instance_id: str
    boot_id: str
    previous: frozenset[str]


@dataclass(frozen=True)
class Standing:
    """What is known of a worker's connection before a newcomer asks for it."""

    incumbent: Incumbent | None = None
    replaced_at: dict[str, float] = field(default_factory=dict[str, float])
    """Starts whose connection was replaced by a newer start's, and when."""
    knock: Knock | None = None
    accused: frozenset[str] = frozenset()
    """Starts that raised an alarm; they and what comes after them stay outside until a person decides."""


@dataclass(frozen=True)
class Same:
    """It is the present connection's own start: the answer was lost, or it connects again."""


@dataclass(frozen=True)
class Welcome:
    """It gets the connection, in place of the present one if there is one."""


@dataclass(frozen=True)
class Late:
    """A request of a start that was replaced a moment ago; no sign of a copy."""


@dataclass(frozen=True)
class Wait:
    """Another boot, while the present one is alive: most likely a reboot that we have not noticed."""

    knock: Knock


@dataclass(frozen=True)
class Alarm:
    """Two machines use the credential."""

    rule: Rule


Verdict = Same | Welcome | Late | Wait | Alarm


def judge(standing: Standing, newcomer: Newcomer, now: float, numbers: Numbers) -> Verdict:
    """Say what becomes of a newcomer."""
    present = standing.incumbent
    if present is not None and present.instance_id == newcomer.instance_id:
        return Same()
    if standing.accused & {newcomer.instance_id, *newcomer.previous}:
        return Alarm("replaced-start" if newcomer.instance_id in standing.replaced_at else "unknown-start")
    if (ended_at := _replaced_at(standing, newcomer)) is not None:
        return Late() if now - ended_at <= numbers.late_s else Alarm("replaced-start")
    if present is None or present.restored:
        return Welcome()
    if present.instance_id not in newcomer.previous:
        return Alarm("unknown-start")
    if present.boot_id == newcomer.boot_id or not present.alive:
        return Welcome()
    return _knock(standing.knock, newcomer, now, numbers)


def _replaced_at(standing: Standing, newcomer: Newcomer) -> float | None:
    """When a start that came after this one took the connection; None where none did."""
    present = standing.incumbent
    if present is not None and newcomer.instance_id in present.previous:
        return present.begun_at
    return standing.replaced_at.get(newcomer.instance_id)


def _knock(before: Knock | None, newcomer: Newcomer, now: float, numbers: Numbers) -> Verdict:
    goes_on = before is not None and before.boot_id == newcomer.boot_id and now - before.last <= numbers.pause_s
    since = before.since if before is not None and goes_on else now
    if now - since >= numbers.knock_s:
        return Alarm("second-boot")
    return Wait(Knock(boot_id=newcomer.boot_id, since=since, last=now))
