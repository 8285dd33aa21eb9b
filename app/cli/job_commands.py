"""Commands about jobs: queue them, follow them, bring their results home."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from app.cli.bundle import CODE_INPUT, pack
from app.cli.client import CoordinatorClient
from app.cli.errors import CliError, WrongUsage
from app.cli.follow import follow_to_end, outcome_of
from app.cli.help_pages import Command, Group
from app.cli.job_ids import full_id
from app.cli.job_views import print_logs, print_metrics, show_artifacts, show_job
from app.cli.options import JobId, Json, signed_in, terminal_of
from app.cli.spec_files import read_spec
from app.cli.status_view import show_jobs
from app.cli.terminal import Terminal
from worker_core.wire.client import ArtifactView, JobView
from worker_core.wire.plan import plan_lines, resolve
from worker_core.wire.spec import BadSpec, JobSpec, canonical_text, parse_spec

job_app = typer.Typer(cls=Group, help="Look at one job, cancel it, bring its results home.", no_args_is_help=False)


def submit(
    context: typer.Context,
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The job spec: JSON, TOML or YAML.")],
    wait: Annotated[bool, typer.Option("--wait", help="Follow the job to its end and exit by its outcome.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan and create nothing.")] = False,
    json: Json = False,
) -> int:
    """Queue a job."""
    terminal = terminal_of(context, json=json)
    raw, parsed = load_job(spec)
    bundle = pack(parsed.files, spec.parent)
    if dry_run:
        return _show_plan(parsed, terminal)
    with signed_in() as client:
        inputs = (client.upload(CODE_INPUT, bundle.data),) if bundle else ()
        job_id = client.submit(canonical_text(raw), inputs)
        with goes_on_without_you(job_id, terminal):
            _tell_queued(job_id, terminal, waits=wait)
            return follow(client, job_id, terminal) if wait else 0


def load_job(path: Path) -> tuple[dict[str, object], JobSpec]:
    """Read and check a spec; raises :class:`WrongUsage` that lists every field at fault."""
    raw = read_spec(path)
    try:
        return raw, parse_spec(raw)
    except BadSpec as error:
        raise WrongUsage(
            f"{path} is not a valid job spec.",
            cure="Correct these fields; stoker submit --dry-run checks without sending.",
            code="bad-spec",
            details=error.errors,
        ) from error


def _show_plan(spec: JobSpec, terminal: Terminal) -> int:
    plan = resolve(spec)
    if terminal.json:
        terminal.result(plan)
    else:
        for line in plan_lines(plan):
            terminal.say(line)
    return 0


def _tell_queued(job_id: str, terminal: Terminal, *, waits: bool) -> None:
    if terminal.json:
        terminal.result({"job_id": job_id})
        return
    terminal.done(f"Queued as {job_id}.")
    if not waits:
        terminal.say(f"  Follow it in the console, or with: stoker job show {job_id}")


@contextmanager
def goes_on_without_you(job_id: str, terminal: Terminal) -> Generator[None]:
    """Say to a person who interrupts what becomes of a job that is queued already."""
    try:
        yield
    except KeyboardInterrupt:
        terminal.say(f"The job goes on without you. See it with: stoker job show {job_id}", "yellow")
        raise


def follow(client: CoordinatorClient, job_id: str, terminal: Terminal) -> int:
    """Follow a job to its end, print its outcome last and return the exit code it stands for."""
    outcome = outcome_of(follow_to_end(client, job_id, terminal))
    if terminal.json:
        terminal.result(outcome)
        return 0 if outcome.state == "succeeded" else 1
    if outcome.state != "succeeded":
        raise CliError(
            f"The job {outcome.state}.", why=outcome.reason, cure=f"See: stoker job logs {job_id}", code="job-ended"
        )
    terminal.done(f"Succeeded at step {outcome.step:,}.")
    terminal.say(f"  Its results: stoker job artifacts {job_id} --to FOLDER")
    return 0


def jobs(context: typer.Context, json: Json = False) -> int:
    """List the jobs of your account, newest first."""
    terminal = terminal_of(context, json=json)
    with signed_in() as client:
        terminal.show(client.jobs(), show_jobs)
    return 0


@contextmanager
def _on_job(context: typer.Context, job_id: str, *, json: bool) -> Generator[tuple[CoordinatorClient, str, Terminal]]:
    """Yield what a command about one job needs: the client, the job's whole id and the terminal."""
    terminal = terminal_of(context, json=json)
    with signed_in() as client:
        yield client, full_id(client, job_id), terminal


def _tell_state(job: JobView, terminal: Terminal) -> None:
    terminal.done(f"The job is {job.state}.", job)


@job_app.command("show", cls=Command)
def show(context: typer.Context, job_id: JobId, json: Json = False) -> int:
    """Show a job with its attempts."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        terminal.show(client.job(known_id), show_job)
    return 0


@job_app.command("cancel", cls=Command)
def cancel(context: typer.Context, job_id: JobId, json: Json = False) -> int:
    """Cancel a job; a running one is ended."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        _tell_state(client.cancel(known_id), terminal)
    return 0


@job_app.command("retry", cls=Command)
def retry(context: typer.Context, job_id: JobId, json: Json = False) -> int:
    """Queue an ended job again; it goes on from its last checkpoint."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        _tell_state(client.retry(known_id), terminal)
    return 0


@job_app.command("logs", cls=Command)
def logs(context: typer.Context, job_id: JobId, json: Json = False) -> int:
    """Print what a job wrote."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        print_logs(client, known_id, terminal)
    return 0


@job_app.command("metrics", cls=Command)
def metrics(context: typer.Context, job_id: JobId, json: Json = False) -> int:
    """Print a job's metrics: with --json every point, else the newest of each."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        print_metrics(client, known_id, terminal)
    return 0


@job_app.command("artifacts", cls=Command)
def artifacts(
    context: typer.Context,
    job_id: JobId,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Write the results into this folder.")] = None,
    json: Json = False,
) -> int:
    """List a job's files, or bring its results home."""
    with _on_job(context, job_id, json=json) as (client, known_id, terminal):
        found = client.artifacts(known_id)
        paths = fetch_results(client, found, to) if to else {}
    if json:
        terminal.result([_with_path(artifact, paths.get(artifact.id)) for artifact in found])
    else:
        show_artifacts(found, paths, terminal)
    return 0


def fetch_results(client: CoordinatorClient, found: list[ArtifactView], folder: Path) -> dict[str, Path]:
    """Download the newest result of each name into ``folder`` and return where each lies."""
    newest: dict[str, ArtifactView] = {}
    for artifact in found:
        if artifact.kind == "result" and artifact.state == "ready":
            known = newest.get(artifact.name)
            if known is None or artifact.attempt > known.attempt:
                newest[artifact.name] = artifact
    if not newest:
        raise CliError("This job has no results yet.", cure="See: stoker job show ID", code="no-results")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return {artifact.id: _fetch(client, artifact, folder) for artifact in newest.values()}
    except OSError as error:
        raise CliError(f"Cannot write into {folder}.", why=error.strerror or str(error), code="cannot-write") from error


def _fetch(client: CoordinatorClient, artifact: ArtifactView, folder: Path) -> Path:
    # The name was chosen by the job: only its last part may become a file's name here.
    name = Path(artifact.name.replace("\\", "/")).name
    if name in ("", ".", ".."):
        raise CliError(f"{artifact.name!r} is no name for a file.", code="bad-name")
    target = folder / name
    client.download(artifact, target)
    return target


def _with_path(artifact: ArtifactView, path: Path | None) -> dict[str, object]:
    return {**msgspec.to_builtins(artifact), "path": str(path) if path else None}
