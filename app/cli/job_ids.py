"""Job ids as people read and type them: their last letters, which differ, instead of all of them."""

from collections.abc import Sequence

from app.cli.client import CoordinatorClient
from app.cli.errors import CliError, WrongUsage

PREFIX = "job_"
SHORTEST = 4
"""Fewer letters would hit some job too easily, and a command may cancel it."""
_SHOWN = 8


def short_ids(job_ids: Sequence[str]) -> dict[str, str]:
    """Return for each id its last letters, as many as tell all of them apart."""
    longest = max((len(job_id) for job_id in job_ids), default=0)
    length = _SHOWN
    while length < longest and len({job_id[-length:] for job_id in job_ids}) < len(set(job_ids)):
        length += 1
    return {job_id: job_id[-length:] for job_id in job_ids}


def full_id(client: CoordinatorClient, typed: str) -> str:
    """Return the id a person means: the whole one as it is, or the one job that ends in these letters."""
    if typed.startswith(PREFIX):
        return typed
    if len(typed) < SHORTEST:
        raise WrongUsage(
            f"{typed!r} is too short for a job's id.", cure=f"Give at least its last {SHORTEST} letters.", code="bad-id"
        )
    found = [job for job in client.jobs() if job.id.endswith(typed.lower())]
    if not found:
        raise CliError(f"There is no job whose id ends in {typed!r}.", cure="See: stoker jobs", code="not-found")
    if len(found) > 1:
        named = ", ".join(f"{job.id} ({job.name})" for job in found)
        raise CliError(
            f"{len(found)} jobs have an id that ends in {typed!r}.",
            why=named,
            cure="Give more of its letters.",
            code="ambiguous",
        )
    return found[0].id
