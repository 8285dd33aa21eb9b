"""Commands about the worker on this machine: they speak to its core, or say that none runs."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Literal

import msgspec
import psutil
import typer

from app.cli.errors import CliError, NotAvailable, NotRunning, WrongUsage
from app.cli.options import Json, terminal_of
from app.cli.status_view import show_status
from app.cli.terminal import Terminal
from worker_core.control.client import ControlClient, ControlError, CoreBusy, CoreGone, CoreNotRunning
from worker_core.control.endpoint import BadEndpoint
from worker_core.control.messages import GiveBackArgs, ModeArgs, QuitArgs
from worker_core.machine.paths import Paths, find_paths
from worker_core.wire.codec import convert
from worker_core.wire.durations import BadDuration, format_duration, parse_duration
from worker_core.wire.status import WorkerStatus

_QUIT_WAIT_S = 330.0
"""The longest grace a job may have, and some time to leave."""
_LOOK_S = 0.25


@contextmanager
def core(paths: Paths) -> Generator[ControlClient]:
    """Connect to the running core; raises :class:`NotRunning`, and :class:`CliError` for what it refuses."""
    try:
        with ControlClient.connect(paths) as client:
            yield client
    except CoreNotRunning as error:
        raise NotRunning(str(paths.data)) from error
    except CoreBusy as error:
        why = f"{error}."
        raise NotAvailable("The worker is busy.", why=why, cure="Try again in a moment.", code="busy") from error
    except BadEndpoint as error:
        raise CliError("The running worker cannot be trusted.", why=str(error), code="bad-endpoint") from error
    except CoreGone as error:
        raise NotAvailable("The worker ended while answering.", why=str(error), code="not-running") from error
    except TimeoutError as error:
        raise NotAvailable("The worker does not answer.", cure="See its log, or: stoker doctor", code="busy") from error
    except ControlError as error:
        raise refused(error) from error


def refused(error: ControlError) -> CliError:
    """Return what the core's refusal means for a command."""
    if error.code == "not-paired":
        return NotAvailable(
            "This worker is not paired.",
            cure="Run: stoker pair --coordinator URL --email YOU",
            code="not-paired",
        )
    if error.code == "unreachable":
        return NotAvailable("The coordinator cannot be reached.", why=error.text, code="unreachable")
    return CliError("The worker refused.", why=error.text, code=error.code)


def status(context: typer.Context, json: Json = False) -> int:
    """Show what this worker does, and why."""
    terminal = terminal_of(context, json=json)
    paths = find_paths()
    try:
        with core(paths) as client:
            shown = client.status()
    except NotRunning as error:
        if not json:
            raise
        terminal.result(WorkerStatus(state="not-running", detail=f"{error.cure}."))
        return error.exit_code
    if json:
        terminal.result(shown)
    else:
        show_status(shown, terminal)
    return 0


def drain(context: typer.Context) -> int:
    """Finish the running job, then take no more."""
    return _set_mode(context, ModeArgs(mode="drain"), "Draining: a running job is finished, none is taken.")


def stop(
    context: typer.Context,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for a fresh checkpoint.")] = False,
) -> int:
    """Stop the running job at a checkpoint and take no more; the job can go on later."""
    return _set_mode(context, ModeArgs(mode="stop", now=now), "Stopping: the job keeps its last checkpoint.")


def resume(context: typer.Context) -> int:
    """Take jobs again."""
    return _set_mode(context, ModeArgs(mode="run"), "Resumed: this worker may take jobs.")


def give_back(
    context: typer.Context,
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long, such as 2h; without it until: stoker resume.")
    ] = None,
) -> int:
    """Have the GPU to yourself: save a checkpoint, free it, and take jobs again when the time is over."""
    terminal = terminal_of(context, json=False)
    until = None if length is None else time.time() + _seconds(length)
    with core(find_paths()) as client:
        client.request("give-back", GiveBackArgs(until=until))
        begun = time.monotonic()
        while (given := client.status().given_back) is not None and not given.freed:
            if time.monotonic() - begun > _QUIT_WAIT_S:
                raise CliError("The GPU is not free yet.", cure="Look again with: stoker status", code="slow")
            time.sleep(_LOOK_S)
    took_s = given.freed_s or 0.0 if given is not None else 0.0
    terminal.done(f"The GPU is free after {format_duration(took_s)}." if took_s >= 1 else "The GPU is free.")
    when = f"{time.strftime('%d %b %H:%M', time.localtime(until))}, or with" if until is not None else "with"
    terminal.say(f"  Jobs are taken again {when}: stoker resume")
    return 0


def _seconds(text: str) -> int:
    try:
        return parse_duration(text)
    except BadDuration as error:
        raise WrongUsage(f"{error}.", code="bad-duration") from error


def _set_mode(context: typer.Context, wanted: ModeArgs, text: str) -> int:
    terminal = terminal_of(context, json=False)
    with core(find_paths()) as client:
        client.request("mode", wanted)
        shown = client.status()
    terminal.done(text)
    if shown.worker is None:
        terminal.say("  It is not paired yet: stoker pair --coordinator URL --email YOU", "yellow")
    if wanted.mode == "run" and shown.mode.console not in (None, "run"):
        terminal.say(f"  The console still says {shown.mode.console}; the stricter of the two counts.", "yellow")
    return 0


def quit_core(
    context: typer.Context,
    drain: Annotated[bool, typer.Option("--drain", help="Finish the running job first.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for a fresh checkpoint.")] = False,
) -> int:
    """End the worker; a running job is stopped at a checkpoint."""
    if drain and now:
        raise WrongUsage("--drain and --now contradict each other.", code="wrong-usage")
    terminal = terminal_of(context, json=False)
    how: Literal["checkpoint", "drain", "now"] = "drain" if drain else "now" if now else "checkpoint"
    with core(find_paths()) as client:
        pid = client.welcome.pid
        client.request("quit", QuitArgs(how=how))
    with terminal.words.status("Waiting for the worker to leave (Ctrl-C stops waiting, not the worker)"):
        left = _wait_gone(pid, None if drain else _QUIT_WAIT_S)
    if not left:
        raise CliError(f"The worker (process {pid}) has not left yet.", cure="Try: stoker quit --now", code="busy")
    terminal.done("The worker has ended.")
    return 0


def _wait_gone(pid: int, longest_s: float | None) -> bool:
    give_up = None if longest_s is None else time.monotonic() + longest_s
    while _is_alive(pid):
        if give_up is not None and time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Unpaired(msgspec.Struct, frozen=True):
    """The core's answer to `unpair`."""

    revoked_on_coordinator: bool = False


def unpair(context: typer.Context) -> int:
    """Revoke this worker and remove its credential from this machine."""
    terminal = terminal_of(context, json=False)
    with core(find_paths()) as client:
        answer = convert(client.request("unpair", timeout_s=60.0), Unpaired)
    terminal.done("This worker is unpaired; its credential is removed.")
    if not answer.revoked_on_coordinator:
        _hint_unreached(terminal)
    return 0


def _hint_unreached(terminal: Terminal) -> None:
    terminal.say("  The coordinator was not reached: revoke the worker in its console too.", "yellow")
