"""The attempt in the slot as others see it: what stands in a lease report, what a person is shown."""

import hashlib

import msgspec

from worker_core.jobs.attempt import AttemptProgress
from worker_core.journal.records import AttemptRow, NewAttempt
from worker_core.wire.signed import Offer
from worker_core.wire.status import JobShown
from worker_core.wire.work import Accepted, LeaseReport


def job_shown(row: NewAttempt, progress: AttemptProgress | None) -> JobShown:
    """Return the job as a person sees it; without progress it is just starting."""
    shown = JobShown(
        id=row.job_id,
        attempt=row.ordinal,
        epoch=row.epoch,
        kind=row.kind,
        name=row.job_name,
        attempt_id=row.attempt_id,
        phase="starting",
    )
    if isinstance(row, AttemptRow):
        return msgspec.structs.replace(shown, phase="stopping", step=lease_report(row, None).step)
    if progress is None:
        return shown
    return msgspec.structs.replace(
        shown,
        phase=progress.label or progress.phase,
        step=progress.step,
        progress=progress.progress,
        eta_s=progress.eta_s,
        checkpoint_age_s=progress.checkpoint_age_s,
        flags=progress.flags,
    )


def lease_report(row: NewAttempt, progress: AttemptProgress | None) -> LeaseReport:
    """Return what the coordinator is told of a held attempt with each heartbeat."""
    if isinstance(row, AttemptRow):  # of an earlier run of this core, being wound up
        step = row.checkpoint.step if row.checkpoint else 0
        return LeaseReport(attempt_id=row.attempt_id, epoch=row.epoch, phase="stopping", step=step)
    if progress is None:
        return LeaseReport(attempt_id=row.attempt_id, epoch=row.epoch, phase="starting")
    return LeaseReport(
        attempt_id=row.attempt_id,
        epoch=row.epoch,
        phase=progress.phase,
        step=progress.step,
        pct=progress.progress * 100,
        eta_s=progress.eta_s,
        checkpoint_age_s=progress.checkpoint_age_s,
    )


def new_attempt(offer: Offer, jws: str, accepted: Accepted) -> NewAttempt:
    """Return the attempt to write down for an accepted offer."""
    return NewAttempt(
        attempt_id=offer.attempt_id,
        job_id=offer.job_id,
        job_name=accepted.job_name,
        kind=offer.kind,
        ordinal=accepted.attempt,
        epoch=offer.epoch,
        offer_jws=jws,
        accepted=accepted,
    )


def is_what_was_signed(offer: Offer, accepted: Accepted) -> bool:
    """Tell whether the job that came is the one whose hashes the coordinator signed."""
    same_spec = hashlib.sha256(accepted.spec.encode()).hexdigest() == offer.spec_sha256
    return same_spec and accepted.inputs == offer.inputs and accepted.lease.epoch == offer.epoch
