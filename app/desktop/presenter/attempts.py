"""The live-metrics window's words: which attempt is shown, how far it is, why a panel is empty."""

import time

from app.desktop.presenter.situation import Situation
from app.desktop.presenter.status import job_name, show
from app.desktop.presenter.wording import count, left, percent
from worker_core.control.messages import AttemptShown
from worker_core.wire.status import JobShown


def attempt_label(attempt: AttemptShown, running: str | None) -> str:
    """Return an attempt as the list of attempts names it."""
    started = time.strftime("%d %b %H:%M", time.localtime(attempt.started))
    when = "running" if attempt.attempt_id == running else started
    return f"{attempt.job_name or attempt.job_id}, attempt {attempt.attempt} ({when})"


def headline(situation: Situation, attempt: AttemptShown | None) -> str:
    """Return the window's headline: the job of the attempt that is shown."""
    if attempt is not None:
        return attempt.job_name or attempt.job_id
    job = situation.live.job if situation.live else None
    return job_name(job) if job is not None else show(situation).headline


def progress_words(situation: Situation, job: JobShown | None) -> str:
    """Return how far the shown attempt is; an attempt that does not run says so."""
    if situation.live is None:
        return show(situation).detail
    if job is None:
        return "This attempt is not running." if situation.live.job else f"No job is running. {show(situation).detail}"
    parts = [percent(job.progress), f"step {count(job.step)}", job.phase, left(job.eta_s)]
    return "   ·   ".join(part for part in parts if part)


def no_values_words(situation: Situation, chosen: str | None, loading: bool, trouble: str) -> str:
    """Say why a panel has nothing to draw."""
    if trouble:
        return trouble
    if situation.live is None:
        return show(situation).headline
    if loading:
        return "Loading…"
    if chosen is None:
        return "No job has run on this computer yet."
    running = situation.live.job
    return "No value yet." if running is not None and running.attempt_id == chosen else "This job told no such value."
