"""Looks at the machine for the owner's rules, obeys them, and keeps the machine awake while a job runs."""

import asyncio
import logging
from collections.abc import Callable

from worker_core.core.rules.evaluate import Memory, Moment, Verdict, evaluate
from worker_core.core.tasks import Tasks
from worker_core.machine.clocks import Clock
from worker_core.machine.keep_awake import KeepAwake
from worker_core.machine.owner_reading import OwnerSource
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.status import GpuShown, OwnerShown
from worker_core.wire.vocabulary import Mode, Reason

log = logging.getLogger(__name__)

LOOK_S = 3.0
"""The first input of a person pauses the worker within ten seconds."""
_SETTLE_S = 5.0
SELDOM = 4
"""Where only the battery is looked at, every so many looks are enough."""
ASK_AGAIN_S = 60.0
"""A system that refused to be kept awake is asked again after so long; the refusal is logged once."""


class OwnerDuty:
    """Holds the verdict of the last look."""

    def __init__(
        self,
        rules: OwnerRules,
        source: OwnerSource,
        awake: KeepAwake,
        clock: Clock,
        gpus: tuple[GpuShown, ...],
        changed: Callable[[], None],
    ) -> None:
        self.rules = rules
        self._source = source
        self._awake = awake
        self._clock = clock
        self._changed = changed
        self._memory = Memory()
        self._looked_at = clock.now()
        # The first look is waited for: no job shall be taken in the first moments that a rule forbids.
        self._reading = source.read(rules, gpus)
        self._judge()
        self._gpus = gpus
        self._held = False
        self._refusal = ""
        self._warned = False
        self._asked_at = -ASK_AGAIN_S
        self._looking = Tasks("look at what the owner's rules need")
        self._holding = Tasks("keep the machine awake")

    @property
    def mode(self) -> Mode:
        """What the rules ask of the worker."""
        return self.verdict.mode

    def mind(self, gpus: tuple[GpuShown, ...], *, runs: bool) -> None:
        """Called each second: look when it is time, and hold the machine awake exactly while a job runs."""
        now = self._clock.now()
        if not self._looking.under_way and now - self._looked_at >= self._look_every_s():
            self._looked_at = now
            self._looking.start(self._look(gpus))
        wanted = runs and self._may_hold()
        due = now - self._asked_at >= ASK_AGAIN_S or not self._refusal
        if wanted != self._held and not self._holding.under_way and (due or not wanted):
            self._asked_at = now
            self._holding.start(self._hold() if wanted else self._let_go())
        if not runs:
            self._refusal = ""

    async def obey(self, rules: OwnerRules) -> None:
        """Follow other rules from now on; what their readings asked for before is looked at anew."""
        await self._looking.settle(_SETTLE_S)
        self.rules = rules
        await self._look(self._gpus)
        self._changed()

    async def end(self) -> None:
        """Stop looking and let the machine sleep."""
        await self._looking.end()
        await self._holding.end()
        await asyncio.to_thread(self._awake.release)
        self._held = False

    def shown(self) -> OwnerShown:
        """Return what a face shows of it."""
        verdict = self.verdict
        return OwnerShown(
            mode=verdict.mode,
            rules=verdict.rules,
            changes_at=verdict.changes_at,
            unknown=verdict.unknown,
            idle_source=self._reading.idle_source,
            awake="held" if self._held else "refused" if self._refusal else "",
            awake_detail=self._refusal,
        )

    def reasons(self) -> tuple[Reason, ...]:
        """Return the rules that hold, as reason codes."""
        return tuple(f"owner:{rule.rule}" for rule in self.verdict.rules)

    async def _look(self, gpus: tuple[GpuShown, ...]) -> None:
        self._gpus = gpus
        before, source = self.verdict, self._reading.idle_source
        self._reading = await asyncio.to_thread(self._source.read, self.rules, gpus)
        self._judge()
        # A countdown or a temperature alone is no news: faces let the one run on and read the other elsewhere.
        if _gist(before) != _gist(self.verdict) or source != self._reading.idle_source:
            held = ", ".join(rule.rule for rule in self.verdict.rules)
            log.info("the owner's rules say %s%s", self.verdict.mode, f": {held}" if held else "")
            self._changed()

    def _judge(self) -> None:
        moment = Moment(self._clock.wall(), self._clock.now())
        self.verdict: Verdict
        self.verdict, self._memory = evaluate(moment, self.rules, self._reading, self._memory)

    def _look_every_s(self) -> float:
        rules = self.rules
        fast = rules.idle_minutes or rules.programs or rules.max_gpu_c or rules.hours or rules.pause_on_metered
        return LOOK_S if fast else SELDOM * LOOK_S

    def _may_hold(self) -> bool:
        if self.rules.keep_awake == "never":
            return False
        return self.rules.keep_awake == "always" or not self._reading.on_battery

    async def _hold(self) -> None:
        try:
            await asyncio.to_thread(self._awake.hold)
        except (OSError, ValueError, KeyError, RuntimeError) as error:  # no bus, no logind, a policy that says no
            if not self._warned:
                self._warned = True
                log.warning("the machine may fall asleep in mid-job: %s", error)
            self._refusal = str(error) or type(error).__name__
        else:
            self._held, self._refusal, self._warned = True, "", False
        self._changed()

    async def _let_go(self) -> None:
        await asyncio.to_thread(self._awake.release)
        self._held = False
        self._changed()


def _gist(verdict: Verdict) -> tuple[object, ...]:
    rules = tuple((rule.rule, rule.until, rule.detail) for rule in verdict.rules)
    return verdict.mode, rules, verdict.changes_at, verdict.unknown
