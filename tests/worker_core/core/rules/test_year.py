"""A year with all rules: nights, holidays, sleep, heat and a battery. No rule flaps, and none is forgotten."""

import random
from datetime import datetime

import pytest

from worker_core.core.rules.evaluate import Memory, Moment, evaluate
from worker_core.core.rules.latch import HOUR_S, MOST_SWITCHES
from worker_core.machine.owner_reading import OwnerReading
from worker_core.wire.owner_rules import Hours, OwnerRules

STEP_S = 600.0
RULES = OwnerRules(
    hours=(Hours(begin="18:00", end="09:00"), Hours(begin="00:00", end="00:00", days=("sat", "sun"))),
    idle_minutes=10,
    max_gpu_c=84.0,
    programs=("game",),
    pause_on_metered=True,
)


pytestmark = pytest.mark.usefixtures("berlin")


class Machine:
    """A machine and its owner, by chance: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.wall = datetime(2026, 1, 1).timestamp()
        self.now = 0.0
        self._idle_s = 0.0
        self._temperature_c = 50.0
        self.on_battery = False
        self._game = False

    def go_on(self, trains: bool) -> None:
        """Live one step; now and then the machine sleeps, or somebody sets its clock."""
        chance = self._chance.random()
        passed_s = STEP_S
        if chance < 0.0005:
            passed_s += self._chance.uniform(3600, 12 * 3600)
        self.wall += passed_s
        self.now += passed_s
        if chance > 0.99995:
            self.wall += self._chance.choice([-7200.0, 7200.0])
        local = datetime.fromtimestamp(self.wall)
        somebody = 9 <= local.hour < 23 and self._chance.random() < 0.02
        self._idle_s = 0.0 if somebody else self._idle_s + passed_s
        warmer_c = 85.0 if trains else 45.0
        self._temperature_c += 0.4 * (warmer_c - self._temperature_c) + self._chance.uniform(-4, 4)
        if self._chance.random() < 0.0008:
            self.on_battery = not self.on_battery
        if self._chance.random() < 0.002:
            self._game = not self._game

    def reading(self) -> OwnerReading:
        return OwnerReading(
            idle_s=self._idle_s,
            on_battery=self.on_battery,
            hottest_gpu_c=self._temperature_c,
            programs=("game",) if self._game else ("bash",),
            metered=self._game,
        )


def test_in_a_year_no_rule_flaps_and_none_is_forgotten() -> None:
    machine, memory, mode = Machine(1), Memory(), "run"
    switches: list[float] = []
    modes: dict[str, int] = {}
    seen: set[str] = set()
    for _ in range(int(365 * 86400 / STEP_S)):
        machine.go_on(mode == "run")
        reading = machine.reading()
        verdict, memory = evaluate(Moment(machine.wall, machine.now), RULES, reading, memory)
        held = {rule.rule for rule in verdict.rules}
        if verdict.mode != mode:
            switches.append(machine.now)
        mode = verdict.mode
        modes[mode] = modes.get(mode, 0) + 1
        seen |= held
        assert ("in-use" in held) >= (reading.idle_s is not None and reading.idle_s < 600)
        assert ("battery" in held) >= machine.on_battery
        assert ("program" in held) >= (reading.programs == ("game",))
        local = datetime.fromtimestamp(machine.wall)
        outside = local.weekday() < 5 and 9 <= local.hour < 18
        assert ("hours" in held) == outside
        assert (mode == "run") == (not held)
    assert seen == {"hours", "in-use", "battery", "heat", "program", "metered"}
    assert set(modes) == {"run", "stop"} or set(modes) == {"run", "stop", "drain"}
    of_heat = memory.latches["heat"].switches
    assert len(of_heat) <= MOST_SWITCHES
    busiest = max(sum(begin <= moment < begin + HOUR_S for moment in switches) for begin in switches)
    assert busiest <= 4 * MOST_SWITCHES
