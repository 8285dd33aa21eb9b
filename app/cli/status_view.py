"""How `stoker status` and `stoker workers` look in a terminal."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from app.cli.containment_words import containment_words
from app.cli.job_ids import short_ids
from app.cli.tables import Column, print_table
from app.cli.terminal import Terminal, count_of
from worker_core.wire.client import JobView, WorkerView
from worker_core.wire.durations import format_duration
from worker_core.wire.status import GpuShown, JobShown, WorkerShown, WorkerStatus

_SHOWN_FLAGS = 3
_GIB = 1 << 30
STATE_STYLES = {
    "training": "bold green",
    "available": "green",
    "draining": "yellow",
    "paused": "yellow",
    "connecting": "cyan",
    "pairing": "cyan",
    "offline": "red",
    "problem": "bold red",
    "expired": "bold red",
    "revoked": "bold red",
    "running": "green",
    "succeeded": "bold green",
    "failed": "bold red",
    "canceled": "yellow",
    "canceling": "yellow",
}


def show_status(status: WorkerStatus, terminal: Terminal) -> None:
    """Print a worker's status as a short table."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, value in _status_rows(status):
        table.add_row(name, value)
    terminal.words.print(table)


def _worker_line(worker: WorkerShown) -> str:
    """Say whose worker this is: a person who does not know the account or the approver can unpair before any job."""
    whose = f", account {worker.account}" if worker.account else ""
    return worker.name + whose + (f", approved by {worker.approved_by}" if worker.approved_by else "")


def _status_rows(status: WorkerStatus) -> Iterable[tuple[str, Text]]:
    yield "State", styled_state(status.state, status.reasons)
    if status.detail:
        yield "", Text(status.detail)
    if status.state in ("unpaired", "revoked"):
        yield "", Text("Pair it with: stoker pair --coordinator URL --email YOU")
    if status.worker:
        yield "Worker", Text(_worker_line(status.worker))
    if status.coordinator:
        yield "Coordinator", Text(f"{status.coordinator}, {_contact(status.contact_age_s)}")
    if status.pairing:
        yield "Code", Text(f"{status.pairing.user_code} (type it at {status.pairing.verification_uri})", style="bold")
    yield "Mode", Text(f"here {status.mode.here}, console {status.mode.console or 'not known yet'}")
    if status.authorization:
        left = format_duration(status.authorization.remaining_s)
        extend = ", extended while healthy" if status.authorization.extend_while_healthy else ""
        yield "Authorized", Text(f"for {left} more{extend}")
    if status.job:
        yield "Job", Text(_job_line(status.job))
        for flag in status.job.flags[-_SHOWN_FLAGS:]:
            yield "", Text(flag_line(flag.step, flag.text, flag.action), style="yellow")
    for gpu in status.gpus:
        yield "GPU", Text(_gpu_line(gpu), style="bold red" if gpu.held else "")
    if status.outbox.events:
        yield (
            "Waiting to send",
            Text(f"{count_of(status.outbox.events, 'event')}, {count_of(status.outbox.bytes, 'byte')}"),
        )
    if status.pid is not None:
        yield "Jobs contained by", Text(containment_words(status.containment))
    if status.credential_store:
        yield "Credential in", Text({"file": "a file only you can read"}.get(status.credential_store, "the keystore"))


def _job_line(job: JobShown) -> str:
    parts = [f"{job.name}, attempt {job.attempt}, step {job.step:,} ({job.progress:.0%})"]
    if job.eta_s is not None:
        parts.append(f"{format_duration(job.eta_s)} left")
    if job.checkpoint_age_s is not None:
        parts.append(f"checkpoint {format_duration(job.checkpoint_age_s)} old")
    return ", ".join(parts)


def flag_line(step: int, text: str, action: str) -> str:
    """Return something that went wrong in a training as one line: where, what, and what was done."""
    done = {"warn": "", "stop": " (the job is stopped)", "rollback": " (rolled back to the last good checkpoint)"}
    return f"step {step:,}: {text}{done.get(action, '')}"


def _gpu_line(gpu: GpuShown) -> str:
    parts = [gpu.name]
    if gpu.memory_used_bytes is not None and gpu.memory_bytes:
        parts.append(f"{gpu.memory_used_bytes / _GIB:.1f} of {gpu.memory_bytes / _GIB:.1f} GiB used")
    if gpu.held is not None:
        parts.append(gpu.held)
    return ", ".join(parts)


def _contact(age_s: float | None) -> str:
    return "not reached yet" if age_s is None else f"heard {format_duration(age_s)} ago"


def styled_state(state: str, reasons: Iterable[str] = ()) -> Text:
    """Return a state in its colour, with its reasons behind it."""
    text = Text(state, style=STATE_STYLES.get(state, ""))
    listed = ", ".join(reasons)
    return text.append(f" ({listed})", style="default") if listed else text


def show_workers(workers: list[WorkerView], terminal: Terminal) -> None:
    """Print the workers of an account as a table."""
    if not workers:
        terminal.say("No workers yet. On a workstation run: stoker pair --coordinator URL --email YOU")
        return
    columns = [
        Column("Worker"),
        Column("State", folds=12),
        Column("Console", leaves=2),
        Column("Here", leaves=4),
        Column("Contact", leaves=3),
        Column("Authorized", leaves=1),
        Column("Job", leaves=5, folds=16),
    ]
    rows = [
        (
            worker.name,
            styled_state(worker.state, worker.reasons),
            *_modes(worker),
            "never" if worker.contact_age_s is None else f"{format_duration(worker.contact_age_s)} ago",
            "–" if worker.state == "revoked" else f"{format_duration(worker.authorization.remaining_s)} left",
            f"{worker.job.name} {worker.job.progress:.0%}" if worker.job else "–",
        )
        for worker in workers
    ]
    print_table(terminal, columns, rows)


def _modes(worker: WorkerView) -> tuple[str, str]:
    """Return what the console and the workstation want of a worker; of a revoked one nobody wants anything."""
    if worker.state == "revoked":
        return "–", "–"
    return worker.console_mode + ("" if worker.mode_seen else " (not seen yet)"), worker.local_mode


def why_of(job: JobView) -> str:
    """Return why a job is in its state, unless that only says the state again."""
    return "" if job.reason == job.state else job.reason


def show_jobs(jobs: list[JobView], terminal: Terminal) -> None:
    """Print the jobs of an account as a table."""
    if not jobs:
        terminal.say("No jobs yet. Queue one with: stoker submit SPEC")
        return
    shown = short_ids([job.id for job in jobs])
    columns = [
        Column("Job"),
        Column("Name", folds=12),
        Column("State", folds=9),
        Column("Worker", leaves=3, folds=12),
        Column("Step", leaves=4),
        Column("Done", leaves=2),
        Column("Why", leaves=1, folds=20),
    ]
    rows = [
        (
            shown[job.id],
            job.name,
            styled_state(job.state, ("offered",) if job.offered else ()),
            job.worker or "–",
            f"{job.step:,}",
            f"{job.progress:.0%}",
            why_of(job),
        )
        for job in jobs
    ]
    print_table(terminal, columns, rows)
