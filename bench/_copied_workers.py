"""A simulated worker, its coordinator and a bad network, with or without a copy of the worker's disk elsewhere.

The coordinator judges by the real rules (coordinator/accounts/clone_rules.py) and the worker keeps the real record
(worker_core/link/session.py); what is simulated is time, the network, crashes, reboots and sleep.
"""

import random
from dataclasses import dataclass, field, replace

from coordinator.accounts.clone_rules import (
    Alarm,
    Incumbent,
    Knock,
    Late,
    Newcomer,
    Numbers,
    Same,
    Standing,
    Wait,
    judge,
)
from worker_core.link.session import ConnectionRecord

STEP_S = 5.0
CONTACT_S = 15.0
REQUEST_LOST, REPLY_LOST, DELAYED = 0.10, 0.15, 0.02
MAX_DELAY_S = 40.0
RETRY_CAP_S = 60.0
NUMBERS = Numbers()


@dataclass
class Coordinator:
    """What the coordinator holds of one worker."""

    now: float = 0.0
    incumbent: Incumbent | None = None
    replaced_at: dict[str, float] = field(default_factory=dict[str, float])
    knock: Knock | None = None
    contact_at: float = 0.0
    alarm: str = ""

    def connect(self, newcomer: Newcomer) -> bool:
        """S1; True when the newcomer holds the connection afterwards."""
        present = self.incumbent
        if present is not None:
            present = replace(present, alive=self.now - self.contact_at <= NUMBERS.late_s)
        match judge(Standing(present, self.replaced_at, self.knock), newcomer, self.now, NUMBERS):
            case Same():
                return True
            case Alarm(rule):
                self.alarm = self.alarm or rule
                return False
            case Wait(knock):
                self.knock = knock
                return False
            case Late():
                return False
            case _:
                if present is not None:
                    self.replaced_at[present.instance_id] = self.now
                self.incumbent = Incumbent(
                    newcomer.instance_id, newcomer.boot_id, newcomer.previous, self.now, alive=True
                )
                self.knock, self.contact_at = None, self.now
                return True

    def hear(self, instance_id: str) -> bool:
        """A poll or heartbeat; False when another start holds the connection."""
        if self.incumbent is None or self.incumbent.instance_id != instance_id:
            return False
        self.contact_at = self.now
        return True


@dataclass
class Machine:
    """One machine with the worker's disk: the original, or a copy."""

    name: str
    disk: ConnectionRecord
    boots: int = 0
    starts: int = 0
    instance_id: str = ""
    """The running start; empty while the core is down."""
    connected: bool = False
    away_until: float = 0.0
    """Until when it sleeps or is switched off."""
    next_at: float = 0.0
    failures: int = 0

    def restart(self, at: float) -> None:
        """The core ends in whatever way and starts again."""
        self.instance_id, self.connected, self.away_until, self.failures = "", False, at, 0

    def reboot(self, at: float) -> None:
        """The computer starts again."""
        self.boots += 1
        self.restart(at)

    @property
    def boot_id(self) -> str:
        """The text that is the same until the computer starts again."""
        return f"{self.name}-boot-{self.boots}"


@dataclass
class Delayed:
    """A request that a proxy holds for a while, whatever has become of its sender."""

    due: float
    newcomer: Newcomer


class World:
    """One schedule."""

    def __init__(self, seed: int, *, all_ids: bool = True) -> None:
        self._random = random.Random(seed)
        self._all_ids = all_ids
        """Whether a worker names every start the coordinator may hold, or only the newest."""
        self.coordinator = Coordinator()
        self.machines = [Machine("original", ConnectionRecord())]
        self._delayed: list[Delayed] = []

    def copy_disk(self) -> None:
        """Start a copy of the disk, as it is now, on another machine."""
        self.machines.append(Machine("copy", self.machines[0].disk, away_until=self.coordinator.now))

    def run(self, steps: int) -> None:
        """Let time pass, until an alarm."""
        for _ in range(steps):
            if self.coordinator.alarm:
                return
            self.coordinator.now += STEP_S
            self._deliver_delayed()
            for machine in self.machines:
                self._live(machine)

    def _deliver_delayed(self) -> None:
        due = [request for request in self._delayed if request.due <= self.coordinator.now]
        self._delayed = [request for request in self._delayed if request.due > self.coordinator.now]
        for request in due:
            self.coordinator.connect(request.newcomer)

    def _live(self, machine: Machine) -> None:
        now, chance = self.coordinator.now, self._random.random()
        if now < machine.away_until:
            return
        if chance < 0.01:
            machine.restart(now + self._random.choice((0.0, 5.0, 30.0)))
        elif chance < 0.014:
            machine.reboot(now + self._random.uniform(20.0, 120.0))
        elif chance < 0.018:
            machine.away_until = now + self._random.uniform(30.0, 1800.0)  # sleep: the start lives on
        elif now >= machine.next_at:
            self._speak(machine)

    def _speak(self, machine: Machine) -> None:
        if not machine.instance_id:
            machine.starts += 1
            machine.instance_id = f"{machine.name}-{machine.boots}-{machine.starts}"
        if machine.connected:
            machine.next_at = self.coordinator.now + CONTACT_S
            heard = not self._lost(REQUEST_LOST) and not self.coordinator.hear(machine.instance_id)
            machine.connected = not (heard and not self._lost(REPLY_LOST))
            return
        self._connect(machine)

    def _connect(self, machine: Machine) -> None:
        machine.disk = machine.disk.announce(machine.instance_id)
        named = machine.disk.previous(machine.instance_id)
        newcomer = Newcomer(machine.instance_id, machine.boot_id, frozenset(named if self._all_ids else named[-1:]))
        machine.failures += 1
        machine.next_at = self.coordinator.now + self._random.uniform(1, min(RETRY_CAP_S, 2.0**machine.failures))
        if self._lost(DELAYED):
            self._delayed.append(Delayed(self.coordinator.now + self._random.uniform(5, MAX_DELAY_S), newcomer))
            return
        if self._lost(REQUEST_LOST) or not self.coordinator.connect(newcomer) or self._lost(REPLY_LOST):
            return
        machine.disk = machine.disk.confirm(machine.instance_id, 1)
        machine.connected, machine.failures = True, 0

    def _lost(self, share: float) -> bool:
        return self._random.random() < share


def false_alarm(seed: int, steps: int = 600, *, all_ids: bool = True) -> str:
    """Return the rule that a worker without a copy broke in one schedule; empty when none."""
    world = World(seed, all_ids=all_ids)
    world.run(steps)
    return world.coordinator.alarm


def caught_after_s(seed: int, steps: int = 2000) -> float | None:
    """Return how long a copy of a live disk went unnoticed, None when it still is; the worker worked a while first."""
    world = World(seed)
    world.run(60)
    while world.coordinator.incumbent is None:
        world.run(1)
    world.copy_disk()
    began = world.coordinator.now
    world.run(steps)
    return world.coordinator.now - began if world.coordinator.alarm else None
