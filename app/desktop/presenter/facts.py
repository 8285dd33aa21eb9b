"""The facts of the status window: pairs of a name and a value, each true or with its age."""

from app.desktop.presenter.menu import is_paired
from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.wording import ago, count, host_of, size
from worker_core.wire.durations import format_duration
from worker_core.wire.status import AuthorizationShown, GpuShown, WorkerStatus

Fact = tuple[str, str]


def facts(situation: Situation) -> tuple[Fact, ...]:
    """Return what is known; facts of a lost core are marked with their age."""
    status = situation.status
    if status is None:
        return ()
    shown = _worker_facts(status, situation.age_s) if is_paired(status) else ()
    shown = (*shown, ("Device", _device(status)))
    if situation.link is not Link.CONNECTED:
        shown = (*shown, ("As of", ago(situation.age_s)))
    return shown


def _worker_facts(status: WorkerStatus, age_s: float) -> tuple[Fact, ...]:
    worker = status.worker.name if status.worker else "–"
    shown: list[Fact] = [("Worker", worker), ("Coordinator", host_of(status.coordinator))]
    if status.contact_age_s is not None:
        shown.append(("Last contact", ago(status.contact_age_s + age_s)))
    if status.authorization is not None:
        shown.append(("Authorization", _authorization(status.authorization, age_s)))
    if status.job is not None and status.job.checkpoint_age_s is not None:
        shown.append(("Checkpoint", ago(status.job.checkpoint_age_s + age_s)))
    if status.outbox.events:
        shown.append(("To be sent", f"{count(status.outbox.events)} events, {size(status.outbox.bytes)}"))
    if status.credential_store == "file":
        shown.append(("Key", "in a private file"))
    return tuple(shown)


def _authorization(authorization: AuthorizationShown, age_s: float) -> str:
    remaining = authorization.remaining_s - age_s
    if remaining <= 0:
        return "expired"
    tail = ", extended while healthy" if authorization.extend_while_healthy else ""
    return f"{format_duration(remaining)} left{tail}"


def _device(status: WorkerStatus) -> str:
    return "; ".join(gpu_line(gpu) for gpu in status.gpus) if status.gpus else "CPU"


def gpu_line(gpu: GpuShown) -> str:
    """Return a GPU's name with what it does now."""
    parts = [gpu.name]
    if gpu.busy_pct is not None:
        parts.append(f"{gpu.busy_pct:.0f} % busy")
    if gpu.temperature_c is not None:
        parts.append(f"{gpu.temperature_c:.0f} °C")
    return ", ".join(parts)
