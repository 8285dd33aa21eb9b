"""`stoker demo`: shows the story as it happens, and leaves nothing behind."""

import shutil
import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from app.cli.demo import EMAIL, Comparison, Demo
from app.cli.errors import CliError, from_problem
from app.cli.follow import progress_shown
from app.cli.interrupts import handled, interrupts
from app.cli.job_commands import load_job
from app.cli.options import Json, terminal_of
from app.cli.own_name import typed_as
from app.cli.terminal import Terminal, error_document
from worker_core.wire.codec import Message, Number, number_to_wire
from worker_core.wire.problems import ProblemError

RESULTS = Path("stoker-demo")
_EXAMPLE = Path(__file__).parents[2] / "examples" / "lunar_lander.toml"


class DemoEnd(Message):
    """Last line of `stoker demo --json`."""

    state: str
    job_id: str | None
    return_before: Number | None
    return_after: Number | None
    artifact: str | None
    steps_per_second: Number | None


class Kept(Message):
    """What `--keep` leaves running, and how to get in."""

    console: str
    email: str
    password: str
    home: str
    worker_pid: int
    coordinator_pid: int


def demo(
    context: typer.Context,
    json: Json = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave coordinator and worker running at the end.")] = False,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="The job to train; else a lunar lander.")
    ] = None,
) -> int:
    """See the whole story on this machine: pair, approve, train, and a policy that plays better."""
    terminal = terminal_of(context, json=json)
    job = _find_spec(spec)
    home = Path(tempfile.mkdtemp(prefix="stoker-demo-"))
    story = Demo(home)
    kept = False
    with interrupts():
        try:
            compared = _tell(story, job, terminal, keep=keep)
            kept = keep
        except (CliError, ProblemError) as error:
            _tell_failure(story, error, terminal)
            raise
        except KeyboardInterrupt:
            terminal.say("Interrupted: ending everything.", "yellow")
            if terminal.json:
                terminal.result(_end("interrupted", story, None))
            raise
        finally:
            if not kept:
                _clean_up(story, home, terminal)
    if kept:
        _tell_kept(story, home, terminal)
    return _tell_end(story, compared, terminal)


def _find_spec(chosen: Path | None) -> Path:
    if chosen is None and not _EXAMPLE.exists():
        raise CliError(
            "The example job is not installed here.", cure="Give one: stoker demo --spec FILE", code="no-spec"
        )
    path = (chosen or _EXAMPLE).absolute()
    load_job(path)
    return path


def _tell(story: Demo, job: Path, terminal: Terminal, *, keep: bool) -> Comparison:
    terminal.say()
    with step(terminal, "Starting a coordinator and a worker on this machine") as done:
        url = story.start()
        done(f"Coordinator and worker run; the console is at {url}", url=url)
    if keep:
        # Whoever keeps the demo wants to watch it train, so the way in comes before the training.
        terminal.say(f"  Log in there as {EMAIL} with the password {story.password}", "dim")
    with step(terminal, "Pairing the worker") as done:
        codes: list[str] = []
        name = story.pair(lambda shown: codes.append(shown.user_code))
        done(f"Paired with code {codes[0]} and approved as {name}", user_code=codes[0], worker=name)
    terminal.say(f"  Jobs are contained by {story.contained_by()}", "dim")
    with step(terminal, f"Queueing {job.name}") as done:
        job_id = story.submit(job)
        done(f"Queued {job.name} as {job_id}", job_id=job_id)
    began = time.monotonic()
    terminal.say()
    with progress_shown(terminal) as shown:
        view = story.train(shown.show)
    terminal.say()
    _tick(terminal, f"Trained {view.step:,} decisions in its own process", time.monotonic() - began)
    with step(terminal, "Bringing the results home") as done:
        compared = story.bring_home(RESULTS.absolute())
        done(f"Results lie in {compared.folder}", folder=str(compared.folder))
    return compared


@contextmanager
def step(terminal: Terminal, doing: str) -> Generator["_Done"]:
    """Show one step: a spinner while it runs, a tick with its time when it is done."""
    done = _Done(doing)
    began = time.monotonic()
    if terminal.words.is_terminal:
        with terminal.words.status(Text(doing)):
            yield done
    else:
        yield done
    _tick(terminal, done.text, time.monotonic() - began)
    if terminal.json:
        terminal.result({"step": doing, **done.facts})


class _Done:
    """What a step says when it is done, and what a program shall know of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.facts: dict[str, str] = {}

    def __call__(self, text: str, **facts: str) -> None:
        self.text, self.facts = text, facts


def _tick(terminal: Terminal, text: str, seconds: float) -> None:
    terminal.words.print(Text.assemble(("✓ ", "bold green"), text, (f"  {seconds:.1f} s", "dim")))


def _clean_up(story: Demo, home: Path, terminal: Terminal) -> None:
    """End everything and remove the home; a second Ctrl-C does not leave half of it behind."""
    with handled(signal.SIG_IGN, "SIGINT", "SIGTERM", "SIGHUP"):
        if terminal.words.is_terminal:
            with terminal.words.status("Ending coordinator and worker"):
                story.end()
        else:
            story.end()
        shutil.rmtree(home, ignore_errors=True)


def _tell_failure(story: Demo, error: CliError | ProblemError, terminal: Terminal) -> None:
    if not terminal.json:
        return
    told = error if isinstance(error, CliError) else from_problem(error.problem)
    terminal.result({"error": error_document(told)})
    terminal.result(_end("failed", story, None))


def _tell_end(story: Demo, compared: Comparison, terminal: Terminal) -> int:
    if terminal.json:
        terminal.result(_end("succeeded", story, compared))
        return 0
    terminal.say()
    terminal.words.print(Panel(_summary(compared), title="What training changed", expand=False, padding=(1, 2)))
    terminal.say(f"The policy is {compared.policy}.")
    terminal.say(f"To pair a worker with a real coordinator: {typed_as()} pair --help")
    return 0


def _end(state: str, story: Demo, compared: Comparison | None) -> DemoEnd:
    if compared is None:
        return DemoEnd(
            state=state,
            job_id=story.job_id,
            return_before=None,
            return_after=None,
            artifact=None,
            steps_per_second=None,
        )
    return DemoEnd(
        state=state,
        job_id=story.job_id,
        return_before=number_to_wire(compared.before),
        return_after=number_to_wire(compared.after),
        artifact=str(compared.policy),
        steps_per_second=number_to_wire(compared.steps_per_second),
    )


def _summary(compared: Comparison) -> Table:
    table = Table.grid(padding=(0, 2))
    widest = max(abs(compared.before), abs(compared.after), 1.0)
    for name, value, style in (("untrained", compared.before, "red"), ("trained", compared.after, "green")):
        bar = "█" * max(1, round(28 * abs(value) / widest))
        table.add_row(name, Text(f"{value:,.1f}", style=f"bold {style}", justify="right"), Text(bar, style=style))
    on = f"mean return of {compared.episodes} episodes from the same starts, acting greedily"
    table.add_row("", "", Text(on, style="dim"))
    table.add_row("speed", Text(f"{compared.steps_per_second:,.0f}", justify="right"), "decisions per second")
    return table


def _tell_kept(story: Demo, home: Path, terminal: Terminal) -> None:
    story.let_go()
    assert story.coordinator is not None
    assert story.core is not None
    kept = Kept(
        console=story.coordinator.url,
        email=EMAIL,
        password=story.password,
        home=str(home),
        worker_pid=story.core.pid,
        coordinator_pid=story.coordinator.pid,
    )
    if terminal.json:
        terminal.result(kept)
        return
    table = Table.grid(padding=(0, 2))
    table.add_row("Console", kept.console)
    table.add_row("E-mail", kept.email)
    table.add_row("Password", kept.password)
    table.add_row("To end it", f"kill {kept.worker_pid} {kept.coordinator_pid}; rm -r {kept.home}")
    terminal.words.print(Panel(table, title="Left running", expand=False))
