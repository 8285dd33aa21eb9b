"""When a running job's lease may be lost, and when it has run long enough without contact: pure rules.

The age of a lease is counted from the moment the request was *sent* whose answer confirmed it, on a clock that goes on
while the computer sleeps: the coordinator counts from its own side in the same way, so this side never believes in a
lease for longer. What ends a job also needs some waking time without an answer: a computer that slept through its
lease, or a process that was frozen, first asks what became of it.
"""

from dataclasses import dataclass
from typing import Literal

from worker_core.core.life import Life
from worker_core.core.life_events import Event, LeaseLapsed, OfflineTooLong
from worker_core.wire.work import Limits


@dataclass(frozen=True)
class LeaseView:
    """The lease of the job in the slot, in seconds."""

    age_s: float
    """Since the last request was sent that confirmed it."""
    awake_s: float
    """Since this process last woke: from sleep of the computer, or from being held up."""
    ttl_s: float
    wake_grace_s: float
    """So much waking time it gets to reach the coordinator before a job is ended for want of contact."""
    limits: Limits

    @property
    def may_run_s(self) -> float:
        """For how long the job runs on; 0 when its time is over."""
        longest_s = 0.0 if self.limits.on_lease_loss == "stop" else self.limits.max_offline_s
        return max(0.0, max(self.ttl_s, longest_s) - self.age_s)


def lease_event(life: Life, lease: LeaseView) -> Event | None:
    """Return what the age of the lease means now, or None."""
    if life.slot != "running" or lease.age_s <= lease.ttl_s:
        return None
    tried = lease.awake_s >= lease.wake_grace_s
    if not life.at_risk:
        policy: Literal["continue", "stop"] = lease.limits.on_lease_loss
        if policy == "continue":
            return LeaseLapsed()
        return LeaseLapsed(stop=True) if tried else None
    return OfflineTooLong() if tried and not lease.may_run_s else None
