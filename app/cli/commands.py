"""The `stoker` command line: which commands there are, and how every failure reaches a person."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from typing import Annotated

import typer
from typer.main import get_command

from app.cli import (
    console_commands,
    demo_command,
    diagnostics_command,
    doctor_command,
    job_commands,
    pairing_commands,
    worker_commands,
)
from app.cli.errors import CliError, WrongUsage, from_problem
from app.cli.help_pages import Command, Group
from app.cli.terminal import Terminal, show_error, wants_traceback
from worker_core.machine.known_secrets import learn_environment
from worker_core.wire.problems import ProblemError

_TRY, _HERE, _CONSOLE, _JOBS = "Try and check", "This worker", "Workers of your account", "Jobs"
_ELSEWHERE = {"ignore_unknown_options": True, "allow_extra_args": True}

app = typer.Typer(
    name="stoker",
    cls=Group,
    help="Keeps a GPU workstation training while its owner is away.",
    epilog="STOKER_DEBUG=1 adds tracebacks to errors. STOKER_HOME moves everything this worker keeps.",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Add the traceback to an error.")] = False,
) -> None:
    """Keeps a GPU workstation training while its owner is away."""
    if show_version:
        sys.stdout.write(f"stoker {version('stoker')}\n")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        with redirect_stdout(sys.stderr):
            context.get_help()  # prints by itself, to standard output
        raise typer.Exit(WrongUsage.exit_code)


def run(context: typer.Context) -> int:
    """Run the worker in the foreground: `stoker run [--once]`."""
    raise WrongUsage("`run` must be the first word: stoker run", code="wrong-usage")


def desktop(context: typer.Context) -> int:
    """Open the desktop: tray icon and windows: `stoker app [--background]`."""
    raise WrongUsage("`app` must be the first word: stoker app", code="wrong-usage")


app.command("demo", cls=Command, rich_help_panel=_TRY)(demo_command.demo)
app.command("doctor", cls=Command, rich_help_panel=_TRY)(doctor_command.doctor)
app.command("diagnostics", cls=Command, rich_help_panel=_TRY)(diagnostics_command.diagnostics)
app.command("pair", cls=Command, rich_help_panel=_HERE)(pairing_commands.pair)
app.command("run", cls=Command, rich_help_panel=_HERE, context_settings=_ELSEWHERE)(run)
app.command("app", cls=Command, rich_help_panel=_HERE, context_settings=_ELSEWHERE)(desktop)
app.command("status", cls=Command, rich_help_panel=_HERE)(worker_commands.status)
app.command("drain", cls=Command, rich_help_panel=_HERE)(worker_commands.drain)
app.command("stop", cls=Command, rich_help_panel=_HERE)(worker_commands.stop)
app.command("resume", cls=Command, rich_help_panel=_HERE)(worker_commands.resume)
app.command("give-back", cls=Command, rich_help_panel=_HERE)(worker_commands.give_back)
app.command("quit", cls=Command, rich_help_panel=_HERE)(worker_commands.quit_core)
app.command("unpair", cls=Command, rich_help_panel=_HERE)(worker_commands.unpair)
app.command("login", cls=Command, rich_help_panel=_CONSOLE)(console_commands.login)
app.command("approve", cls=Command, rich_help_panel=_CONSOLE)(console_commands.approve)
app.command("workers", cls=Command, rich_help_panel=_CONSOLE)(console_commands.workers)
app.command("worker", cls=Command, rich_help_panel=_CONSOLE)(console_commands.worker)
app.command("submit", cls=Command, rich_help_panel=_JOBS)(job_commands.submit)
app.command("jobs", cls=Command, rich_help_panel=_JOBS)(job_commands.jobs)
app.add_typer(job_commands.job_app, name="job", rich_help_panel=_JOBS)


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code; whatever fails is told, never thrown."""
    arguments = [argument for argument in argv if argument != "--verbose"]
    verbose = wants_traceback(len(arguments) != len(argv))
    terminal = Terminal()
    learn_environment(os.environ)
    try:
        code = get_command(app).main(arguments, prog_name="stoker", standalone_mode=False, obj=terminal)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        told = explain(error)
        if told is not error:
            told.__cause__ = error
        as_json = "--json" in arguments
        show_error(told, json=as_json, already_printed=terminal.printed, verbose=verbose)
        return told.exit_code


def explain(error: Exception) -> CliError:
    """Return what a failure means to the person who typed the command."""
    match error:
        case CliError():
            return error
        case ProblemError():
            return from_problem(error.problem)
        case typer.TyperException():
            return _wrong_usage(error)
        case typer.Abort():
            return CliError("Cancelled.", code="canceled")
        case _:
            return CliError(
                "Something went wrong inside Stoker.",
                why=f"{type(error).__name__}: {error}",
                cure="Run it again with --verbose and report what it prints.",
                code="internal",
            )


def _wrong_usage(error: typer.TyperException) -> WrongUsage:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "stoker"
    text = error.format_message()
    if not text.endswith((".", "?")):
        text += "."
    return WrongUsage(text, cure=f"See: {command} --help", code="wrong-usage")
