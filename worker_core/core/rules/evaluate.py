"""What the owner's rules ask of the worker now: pure, from the moment, the rules, the readings and a small memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from worker_core.core.rules.hours import allowed, next_change
from worker_core.core.rules.latch import Latch, step
from worker_core.machine.owner_reading import OwnerReading
from worker_core.wire.owner_rules import Hours, OwnerRules, RuleName
from worker_core.wire.status import RuleShown
from worker_core.wire.vocabulary import Mode, stricter

COOLER_BY_C = 10.0
SPAN_S = 3600.0
SETTLE_S: Mapping[RuleName, tuple[float, float]] = {
    "in-use": (0.0, 0.0),  # the minutes of idleness are its own delay
    "battery": (0.0, 30.0),
    "heat": (30.0, 60.0),
    "program": (0.0, 30.0),
    "metered": (10.0, 60.0),
}
"""How long a reading has to last before a rule holds, and before it lets go (seconds)."""


@dataclass(frozen=True)
class Moment:
    """``wall`` for hours (seconds since 1970); ``now`` for durations, by a clock that nobody can set."""

    wall: float
    now: float


@dataclass(frozen=True)
class Memory:
    """What has to be remembered from one look to the next."""

    latches: Mapping[RuleName, Latch] = field(default_factory=dict[RuleName, Latch])
    span: "Span | None" = None


@dataclass(frozen=True)
class Span:
    """What the hours said, and for which moments: not for long, because time zones change under travellers."""

    hours: tuple[Hours, ...]
    begin: float
    end: float
    allowed: bool
    change: float | None

    @classmethod
    def of(cls, hours: tuple[Hours, ...], wall: float) -> "Span":
        """Ask the calendar."""
        change = next_change(hours, wall)
        end = min(wall + SPAN_S, change if change is not None else wall + SPAN_S)
        return cls(hours, wall, end, allowed(hours, wall), change)

    def holds(self, hours: tuple[Hours, ...], wall: float) -> bool:
        """Whether the answer is still good, also after somebody set the clock."""
        return self.hours == hours and self.begin <= wall < self.end


@dataclass(frozen=True)
class Verdict:
    """What the rules ask for."""

    mode: Mode = "run"
    rules: tuple[RuleShown, ...] = ()
    """Those that hold now."""
    changes_at: float | None = None
    """When the hours begin or end next (seconds since 1970)."""
    unknown: tuple[RuleName, ...] = ()
    """Rules that are set, but whose reading this machine does not give: they are off."""


def evaluate(moment: Moment, rules: OwnerRules, reading: OwnerReading, memory: Memory) -> tuple[Verdict, Memory]:
    """Judge one look at the machine."""
    wishes = _wishes(rules, reading, memory)
    latches: dict[RuleName, Latch] = {
        name: step(
            memory.latches.get(name, Latch()),
            bool(wanted),
            moment.now,
            enter_s=SETTLE_S[name][0],
            leave_s=SETTLE_S[name][1],
        )
        for name, wanted in wishes.items()
    }
    held = [_shown(name, rules, reading) for name, latch in latches.items() if latch.held]
    mode: Mode = "run"
    for rule in held:
        mode = stricter(mode, "drain" if rule.rule == "metered" else "stop")
    span = memory.span
    if span is None or not span.holds(rules.hours, moment.wall):
        span = Span.of(rules.hours, moment.wall)
    if not span.allowed:
        mode = stricter(mode, rules.after_hours)
        held.insert(0, RuleShown(rule="hours", until=span.change))
    unknown: tuple[RuleName, ...] = tuple(name for name, wanted in wishes.items() if wanted is None)
    return Verdict(mode=mode, rules=tuple(held), changes_at=span.change, unknown=unknown), Memory(latches, span)


def _wishes(rules: OwnerRules, reading: OwnerReading, memory: Memory) -> dict[RuleName, bool | None]:
    """Return what each rule that is set reads now; None where the machine does not say."""
    wishes: dict[RuleName, bool | None] = {}
    if rules.idle_minutes:
        idle_s = reading.idle_s
        wishes["in-use"] = None if idle_s is None else idle_s < 60 * rules.idle_minutes
    if rules.pause_on_battery:  # most machines have no battery, so one that is not told is none
        wishes["battery"] = reading.on_battery is True
    if rules.max_gpu_c:
        latch = memory.latches.get("heat", Latch())
        limit = rules.max_gpu_c - (COOLER_BY_C if latch.held else 0.0)
        wishes["heat"] = None if reading.hottest_gpu_c is None else reading.hottest_gpu_c >= limit
    if rules.programs:
        wishes["program"] = reading.programs is not None and _running(rules, reading) != ""
    if rules.pause_on_metered:
        wishes["metered"] = reading.metered
    return wishes


def _running(rules: OwnerRules, reading: OwnerReading) -> str:
    running = {name.casefold().removesuffix(".exe") for name in reading.programs or ()}
    return next((name for name in rules.programs if name.casefold().removesuffix(".exe") in running), "")


def _shown(name: RuleName, rules: OwnerRules, reading: OwnerReading) -> RuleShown:
    match name:
        case "heat":
            return RuleShown(rule=name, value=reading.hottest_gpu_c)
        case "in-use":
            left_s = 60 * rules.idle_minutes - (reading.idle_s or 0.0)
            return RuleShown(rule=name, value=max(0.0, left_s))
        case "program":
            return RuleShown(rule=name, detail=_running(rules, reading))
        case _:
            return RuleShown(rule=name)
