"""Pairing as the worker lives it: ask for a code, then ask at the agreed pace whether a person has decided."""

import asyncio
from typing import Literal

from worker_core.link.backoff import Backoff, Sleep, may_help
from worker_core.link.client import CoordinatorClient
from worker_core.link.faults import LinkFault, TransportFault
from worker_core.machine.clocks import Clock
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.pairing import PairingApproved, PairingStarted
from worker_core.wire.problems import ProblemError

SLOWER_S = 5.0
_PATIENCE_S = 30.0
"""How long after the code's end, by our count, the coordinator may still answer before we call it expired."""
_FAULT_CAP_S = 30.0


class PairingOver(LinkFault):
    """The pairing ended without approval."""

    def __init__(self, state: Literal["denied", "expired"], text: str) -> None:
        super().__init__(text)
        self.state: Literal["denied", "expired"] = state


async def await_approval(
    client: CoordinatorClient, started: PairingStarted, clock: Clock, sleep: Sleep = asyncio.sleep
) -> PairingApproved:
    """Poll until a person has decided; raises PairingOver, or ProblemError for a refusal that no waiting cures.

    The wait grows by what ``slow_down`` asks and never shrinks again. Faults of the network end nothing: the code
    lives on at the coordinator, and only time ends it.
    """
    KNOWN_SECRETS.add(started.device_code)
    interval = started.interval
    backoff = Backoff(_FAULT_CAP_S)
    deadline = clock.now() + started.expires_in + _PATIENCE_S
    while clock.now() < deadline:
        await sleep(interval)
        try:
            return await client.poll_pairing(started.device_code)
        except TransportFault as fault:
            await sleep(backoff.next_wait(fault))
        except ProblemError as error:
            backoff.works()
            interval = _next_interval(error, interval)
    raise PairingOver("expired", "the code has expired; ask for a new one")


def _next_interval(error: ProblemError, interval: float) -> float:
    """Return the wait before the next poll; raises what ends the pairing."""
    match error.problem.error:
        case "authorization_pending":
            return interval
        case "slow_down":
            return max(error.problem.interval or 0.0, interval + SLOWER_S)
        case "access_denied":
            raise PairingOver("denied", "the pairing was denied in the console") from error
        case "expired_token":
            raise PairingOver("expired", "the code has expired; ask for a new one") from error
        case _:
            if may_help(error):
                return max(error.problem.retry_after_s or 0.0, interval)
            raise error
