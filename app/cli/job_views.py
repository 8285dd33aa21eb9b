"""How one job, its log, its metrics and its files look in a terminal."""

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table
from rich.text import Text

from app.cli.client import CoordinatorClient, to_the_end
from app.cli.status_view import flag_line, styled_state, why_of
from app.cli.tables import Column, print_table
from app.cli.terminal import Terminal
from worker_core.wire.client import ArtifactView, JobView, MetricPoint
from worker_core.wire.durations import format_duration

_STREAM_STYLES = {"stderr": "yellow", "stoker": "cyan"}


def show_job(job: JobView, terminal: Terminal) -> None:
    """Print one job and its attempts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("Job", Text(f"{job.name} ({job.kind})"))
    table.add_row("Id", job.id)
    table.add_row("State", styled_state(job.state, ("offered",) if job.offered else ()))
    if why := why_of(job):
        table.add_row("Why", Text(why))
    if job.cure:
        table.add_row("", Text(job.cure, style="italic"))
    for flag in job.flags:
        table.add_row("Flagged", Text(flag_line(flag.step, flag.text, flag.action), style="yellow"))
    table.add_row("Worker", Text(job.worker or "none"))
    left = f", {format_duration(job.eta_s)} left" if job.eta_s is not None else ""
    table.add_row(
        "Progress", Text(f"step {job.step:,}, {job.progress:.0%}{left}" + (f", {job.phase}" * bool(job.phase)))
    )
    table.add_row("Queued", job.created_at)
    if job.ended_at:
        table.add_row("Ended", job.ended_at)
    terminal.words.print(table)
    if job.attempts:
        terminal.say()
        _show_attempts(job, terminal)


def _show_attempts(job: JobView, terminal: Terminal) -> None:
    columns = [
        Column("Attempt"),
        Column("State"),
        Column("Worker", leaves=1, folds=12),
        Column("Step", leaves=2),
        Column("Began", leaves=4),
        Column("Ended", leaves=3),
        Column("Error", folds=24),
    ]
    rows = [
        (
            str(attempt.ordinal),
            styled_state(attempt.state),
            attempt.worker,
            f"{attempt.step:,}",
            attempt.created_at,
            attempt.ended_at or "–",
            f"{attempt.error_class}: {attempt.error}" if attempt.error_class else "",
        )
        for attempt in job.attempts
    ]
    print_table(terminal, columns, rows)


def print_logs(client: CoordinatorClient, job_id: str, terminal: Terminal) -> None:
    """Print a job's whole log, oldest line first."""
    for line in to_the_end(lambda cursor: client.logs(job_id, after=cursor)):
        if terminal.json:
            terminal.result(line)
        else:
            terminal.say(line.text, _STREAM_STYLES.get(line.stream, ""))


def print_metrics(client: CoordinatorClient, job_id: str, terminal: Terminal) -> None:
    """Print every metric point as JSON, or a table of the newest of each name."""
    newest: dict[str, MetricPoint] = {}
    for point in all_points(client, job_id):
        if terminal.json:
            terminal.result(point)
        newest[point.name] = point
    if terminal.json:
        return
    if not newest:
        terminal.say("No metrics yet.")
        return
    table = Table("Metric", "Value", "Step", box=None, pad_edge=False)
    for name in sorted(newest):
        table.add_row(Text(name), f"{float(newest[name].value):,.4g}", f"{newest[name].step:,}")
    terminal.words.print(table)


def all_points(client: CoordinatorClient, job_id: str) -> Iterator[MetricPoint]:
    """Return every metric point of a job that is there now."""
    return to_the_end(lambda cursor: client.metrics(job_id, after=cursor))


def show_artifacts(found: list[ArtifactView], paths: dict[str, Path], terminal: Terminal) -> None:
    """Print a job's files, and where those lie that were brought home."""
    if not found:
        terminal.say("No files yet.")
        return
    columns = [
        Column("Name", folds=20),
        Column("Kind", leaves=2),
        Column("Size", leaves=1),
        Column("Step", leaves=3),
        Column("Attempt", leaves=4),
        Column("Here", folds=20),
    ]
    rows = [
        (
            artifact.name,
            artifact.kind + ("" if artifact.state == "ready" else " (uploading)"),
            f"{artifact.size:,}",
            "–" if artifact.step is None else f"{artifact.step:,}",
            str(artifact.attempt),
            str(paths.get(artifact.id, "–")),
        )
        for artifact in found
    ]
    print_table(terminal, columns, rows)
