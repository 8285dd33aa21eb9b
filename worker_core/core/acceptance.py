"""From an offer to an attempt: accepted, checked against what was signed, and written down before it runs."""

import asyncio
import logging

from worker_core.core.reports import is_what_was_signed, new_attempt
from worker_core.journal.journal import Journal
from worker_core.journal.records import NewAttempt
from worker_core.link.backoff import Backoff, until_answered
from worker_core.link.client import CoordinatorClient
from worker_core.link.exchange import WorkerRevoked
from worker_core.link.faults import TransportFault
from worker_core.wire.frames import JobError
from worker_core.wire.problems import ProblemError
from worker_core.wire.signed import Offer
from worker_core.wire.work import Completion, Decline

log = logging.getLogger(__name__)

_ACCEPT_TRIES = 4
_ACCEPT_CAP_S = 4.0
_DECLINED_FOR_S = 30.0

Refusal = TransportFault | ProblemError | WorkerRevoked


async def accept_offer(client: CoordinatorClient, journal: Journal, offer: Offer, jws: str) -> NewAttempt | None:
    """W2: take an offered job; None for one that was here before or is not what was signed.

    Raises what the coordinator says against it, or JournalError.
    """
    if await journal.knows_attempt(offer.attempt_id):
        log.warning("job %s was offered again as %s, which was here before", offer.job_id, offer.attempt_id)
        return None
    accepted = await until_answered(
        lambda: client.accept(offer.attempt_id, offer.epoch), Backoff(_ACCEPT_CAP_S), asyncio.sleep, _ACCEPT_TRIES
    )
    if not is_what_was_signed(offer, accepted):
        await _refuse_forgery(client, offer)
        return None
    row = new_attempt(offer, jws, accepted)
    await journal.add_attempt(row)
    return row


async def decline_offer(client: CoordinatorClient, offer: Offer, reason: str) -> None:
    """W3: leave an offered job to others."""
    decline = Decline(epoch=offer.epoch, reason=reason, retry_after_s=_DECLINED_FOR_S)
    await client.decline(offer.attempt_id, decline)


async def _refuse_forgery(client: CoordinatorClient, offer: Offer) -> None:
    log.error("job %s came with other bytes than its signed offer names; something altered it", offer.job_id)
    text = "the spec or an input is not the one that was signed; something between alters what is sent"
    error = JobError(failure="start-failed", message=text)
    completion = Completion(epoch=offer.epoch, outcome="failed", final_seq=0, error=error)
    await client.complete(offer.attempt_id, completion)
