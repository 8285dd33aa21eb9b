"""Options that several commands share, and the terminal they write to."""

from typing import Annotated

import typer

from app.cli.client import CoordinatorClient
from app.cli.credentials import find_credentials
from app.cli.terminal import Terminal
from worker_core.machine.paths import find_paths

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, or its end as `stoker jobs` shows it.")]


def terminal_of(context: typer.Context, *, json: bool) -> Terminal:
    """Return the outputs of the running command."""
    terminal = context.obj
    assert isinstance(terminal, Terminal)
    terminal.use_json(json)
    return terminal


def signed_in() -> CoordinatorClient:
    """Return a client with this person's credentials; raises when there are none."""
    return CoordinatorClient.signed_in(find_credentials(find_paths()))
