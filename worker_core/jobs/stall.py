"""When a job that still lives makes no step any more: pure, fed with what it says and with the time that passed.

The job looks for this itself, from inside, and says so. This is for the job that cannot even do that: its interpreter
is held, or the whole process is stopped. Like the watch for silence it counts only time in which the core was awake.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from worker_core.jobs.watch import MAX_STEP_S
from worker_core.wire.durations import format_duration
from worker_core.wire.events import Flag, Status
from worker_core.wire.status import FlagShown
from worker_core.wire.work import Limits

TIMES_MEDIAN = 10.0
JOB_FIRST_S = 15.0
"""How much longer the core waits than the job itself, whose word also says in what phase it stands."""
_REMEMBERED, _LEAST_TIMES = 61, 3
_NOT_AT_WORK = "starting"
_MOST_FLAGS = 50
"""So many are shown; all of them are in the journal."""


@dataclass
class StallWatch:
    """What is counted for one running job; ``least_s`` is the shortest time that counts as a stall."""

    least_s: float
    still_s: float = 0.0
    since_s: float = 0.0
    """Since the last step that was heard of; the time of several steps is shared between them."""
    last: Status | None = None
    told: bool = False
    step_times: deque[float] = field(default_factory=lambda: deque[float](maxlen=_REMEMBERED))

    def saw(self, status: Status) -> None:
        """The job said where it is; the same place again is no step."""
        before, self.last = self.last, status
        if before is None or (before.phase, before.step, before.progress) != (
            status.phase,
            status.step,
            status.progress,
        ):
            steps = status.step - before.step if before is not None and before.phase == status.phase else 0
            if steps > 0 and not self.told:
                self.step_times.append(self.since_s / steps)
            self.still_s = self.since_s = 0.0
            self.told = False

    def excuse(self) -> None:
        """The job waits for us, not we for it."""
        self.still_s = 0.0

    def tick(self, passed_s: float) -> bool:
        """Count ``passed_s``; True when a stall is to be told now, once for each."""
        step = min(passed_s, MAX_STEP_S)
        self.still_s += step
        self.since_s += step
        if self.told or self.last is None or self.last.phase == _NOT_AT_WORK:
            return False
        self.told = self.still_s > self.patience_s() + JOB_FIRST_S
        return self.told

    def patience_s(self) -> float:
        """Return after how long without a step a job stands still."""
        usual = median(self.step_times) if len(self.step_times) >= _LEAST_TIMES else 0.0
        return max(self.least_s, TIMES_MEDIAN * usual)


class HealthDesk:
    """What was flagged of one running job: by the job itself, and by us where it is mute."""

    def __init__(self, limits: Limits) -> None:
        self.flags: tuple[FlagShown, ...] = ()
        self._limits = limits
        self._stall = StallWatch(limits.stall_s)

    def is_sign_of_life(self, body: object) -> bool:
        """Tell whether a frame shows that the job goes on; its word that it stands still does not."""
        return not (isinstance(body, Flag) and body.flag == "stall")

    def saw(self, status: Status) -> None:
        """The job said where it is."""
        self._stall.saw(status)

    def take(self, flag: Flag) -> bool:
        """Keep a flag; True when the job shall be stopped because it stands still."""
        shown = FlagShown(step=flag.step, flag=flag.flag, text=flag.text, action=flag.action)
        self.flags = (*self.flags, shown)[-_MOST_FLAGS:]
        if flag.flag != "stall":
            return False  # of everything else the job itself draws the consequence
        self._stall.told = True
        return self._limits.on_stall == "stop"

    def tick(self, passed_s: float, wall: float, *, excused: bool) -> Flag | None:
        """Count ``passed_s``; returns a flag when the job stands still and has not said so itself."""
        if excused:
            self._stall.excuse()
        if not self._stall.tick(passed_s) or self._stall.last is None:
            return None
        still = format_duration(self._stall.still_s)
        text = f"the job is alive but has made no step for {still} in the phase {self._stall.last.phase[:100]!r}"
        return Flag(ts=wall, step=self._stall.last.step, flag="stall", text=text, action=self._limits.on_stall)
