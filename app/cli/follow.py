"""Follows a job to its end with a progress bar: phase, step, return, speed, time left."""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from app.cli.client import CoordinatorClient
from app.cli.errors import Unreachable
from app.cli.status_view import flag_line
from app.cli.terminal import Terminal
from worker_core.wire.client import FlagView, JobView
from worker_core.wire.codec import Message, Number
from worker_core.wire.durations import format_duration
from worker_core.wire.vocabulary import JOB_END_STATES

POLL_S = 0.5
RETURN, SPEED = "rollout/ep_rew_mean", "time/fps"
_SEPARATOR = " · "
_BAR_WIDTH = 12
_AROUND = len("⠋") + len("100 %") + 6 + len("^C")
"""What else a line holds: the spinner, the share done, a blank behind each of its six columns, and what a terminal
writes behind it when a person interrupts: on a full line that begins a new one, and the bar would stand there twice."""
_LINE_EVERY_S = 10.0
_AWAY_S = 120.0
"""How long a coordinator may be away before following gives up; the job does not mind."""


class JobOutcome(Message):
    """Last line of `stoker submit --wait --json`."""

    job_id: str
    state: str
    reason: str
    attempt: int
    step: int
    name: str


def outcome_of(view: JobView) -> JobOutcome:
    """Return how a job ended."""
    return JobOutcome(
        job_id=view.id, state=view.state, reason=view.reason, attempt=view.attempt, step=view.step, name=view.name
    )


@dataclass
class Glance:
    """A job as it is now: its view, and the newest value of each metric."""

    view: JobView
    newest: dict[str, Number] = field(default_factory=dict[str, Number])

    @property
    def ended(self) -> bool:
        return self.view.state in JOB_END_STATES


def glances(client: CoordinatorClient, job_id: str, poll_s: float = POLL_S) -> Iterator[Glance]:
    """Yield the job at short intervals until it has ended, the end included; sits out a coordinator's restart."""
    cursor: str | None = None
    newest: dict[str, Number] = {}
    heard = time.monotonic()
    while True:
        try:
            points = client.metrics(job_id, after=cursor)
            now = Glance(client.job(job_id), newest)
        except Unreachable:
            if time.monotonic() - heard > _AWAY_S:
                raise
            time.sleep(poll_s)
            continue
        heard = time.monotonic()
        newest |= {point.name: point.value for point in points.items}
        cursor = points.next or cursor
        yield now
        if now.ended:
            return
        time.sleep(poll_s)


def follow_to_end(client: CoordinatorClient, job_id: str, terminal: Terminal) -> JobView:
    """Show a job's progress until it ends and return its last view."""
    last: Glance | None = None
    with progress_shown(terminal) as shown:
        for last in glances(client, job_id):
            shown.show(last)
    assert last is not None
    return last.view


@contextmanager
def progress_shown(terminal: Terminal) -> Generator["ProgressShown"]:
    """Show a progress bar on a terminal, and a line now and then elsewhere."""
    if terminal.words.is_terminal:
        with progress_bar(terminal.words) as bar:
            yield ProgressShown(terminal, bar)
    else:
        yield ProgressShown(terminal, None)


class ProgressShown:
    """Where glances at a job become visible."""

    def __init__(self, terminal: Terminal, bar: Progress | None) -> None:
        self._terminal = terminal
        self._bar = bar
        self._task: TaskID | None = None
        self._said = ""
        self._said_at = 0.0
        self._flagged: set[FlagView] = set()

    def show(self, glance: Glance) -> None:
        """Show the newest state, and once everything that went wrong."""
        for flag in glance.view.flags:
            if flag not in self._flagged:
                self._flagged.add(flag)
                self._terminal.say(flag_line(flag.step, flag.text, flag.action), "yellow")
        if self._bar is None:
            self._say(glance)
            return
        if self._task is None:
            self._task = self._bar.add_task("", total=1.0, phase="", facts="", left="")
        phase, facts, left = beside_bar(glance, self._terminal.words.width)
        self._bar.update(self._task, completed=glance.view.progress, phase=phase, facts=facts, left=left)

    def _say(self, glance: Glance) -> None:
        """Say a new phase at once, and progress every ten seconds."""
        phase, now = phase_of(glance.view), time.monotonic()
        if phase == self._said and now - self._said_at < _LINE_EVERY_S:
            return
        self._said, self._said_at = phase, now
        parts = (phase, f"{glance.view.progress:.0%}", facts_of(glance), time_left(glance.view))
        self._terminal.say("  " + _SEPARATOR.join(part for part in parts if part))


def phase_of(view: JobView) -> str:
    """Return what a job does now, in words: its own, or why it waits."""
    if view.state == "running":
        return view.phase or "starting"
    if view.offered:
        return "offered"
    return f"{view.state}: {view.reason}" if view.reason and view.state == "queued" else view.state


def beside_bar(glance: Glance, width: int) -> tuple[str, str, str]:
    """Return phase, facts and time left, cut so that the bar keeps its length: what matters least goes first."""
    phase, left, facts = phase_of(glance.view), time_left(glance.view), _facts(glance)
    if glance.view.state == "queued" and not glance.view.offered:
        phase, facts = "queued", [glance.view.reason]
    room = width - _BAR_WIDTH - _AROUND - cell_len(phase) - cell_len(left)
    while len(facts) > 1 and cell_len(_SEPARATOR.join(facts)) > room:
        facts.pop()
    text = Text(_SEPARATOR.join(facts))
    text.truncate(max(0, room), overflow="ellipsis")
    return phase, text.plain, left


def facts_of(glance: Glance) -> str:
    """Return step, return and speed as far as they are known."""
    return _SEPARATOR.join(_facts(glance))


def _facts(glance: Glance) -> list[str]:
    parts = [f"step {glance.view.step:,}"] if glance.view.step else []
    if RETURN in glance.newest:
        parts.append(f"return {float(glance.newest[RETURN]):,.1f}")
    if SPEED in glance.newest:
        parts.append(f"{float(glance.newest[SPEED]):,.0f} steps/s")
    return parts


def time_left(view: JobView) -> str:
    """Return the time left in words, empty when unknown."""
    return "" if view.eta_s is None or view.state != "running" else f"{format_duration(view.eta_s)} left"


class _Share(ProgressColumn):
    """The share done, in whole percent."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.percentage:>3.0f} %", style="bold")


def progress_bar(console: Console) -> Progress:
    """Return the bar itself; phase, facts and time left are fields of its task."""
    return Progress(
        SpinnerColumn(finished_text="✓"),
        TextColumn("{task.fields[phase]}", markup=False),
        BarColumn(bar_width=_BAR_WIDTH),
        _Share(),
        TextColumn("{task.fields[facts]}", style="cyan", markup=False),
        TextColumn("{task.fields[left]}", style="dim", markup=False),
        console=console,
    )
