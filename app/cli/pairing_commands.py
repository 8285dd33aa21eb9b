"""`stoker pair`: through the running core, or alone under the home's lock when none runs."""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import typer
from rich.panel import Panel
from rich.text import Text

from app.cli.client import CoordinatorClient
from app.cli.credentials import normalise_url
from app.cli.errors import AnotherRuns, CliError, NotRunning
from app.cli.interrupts import interrupts
from app.cli.options import Json, terminal_of
from app.cli.terminal import Terminal, count_of
from app.cli.worker_commands import core
from worker_core.control.client import ControlClient
from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.machine.paths import Paths, find_paths
from worker_core.wire.codec import convert
from worker_core.wire.status import PairingShown

Store = Literal["keyring", "file"]
OnCode = Callable[[PairingShown], None]


def pair(
    context: typer.Context,
    coordinator: Annotated[str, typer.Option("--coordinator", metavar="URL", help="The coordinator's address.")],
    email: Annotated[str, typer.Option("--email", help="The account that shall own this worker.")],
    name: Annotated[str | None, typer.Option("--name", help="A name to suggest for this worker.")] = None,
    credential_store: Annotated[
        Store | None, typer.Option("--credential-store", help="Where this worker's key is kept.")
    ] = None,
    json: Json = False,
) -> int:
    """Pair this machine with a coordinator: shows a code that a person approves in the console."""
    terminal = terminal_of(context, json=json)
    url = normalise_url(coordinator)
    with CoordinatorClient(url) as client:
        client.meta()  # a wrong address is told here, in the words of the other commands
    arguments = PairArgs(coordinator=url, email=email, name=name, credential_store=credential_store)
    with interrupts():  # whatever ends this, the code is taken back and no key stays
        outcome = _pair(find_paths(), arguments, lambda shown: _show_code(shown, terminal))
    return _tell(outcome, terminal)


def _pair(paths: Paths, arguments: PairArgs, on_code: OnCode) -> PairOutcome:
    try:
        with core(paths) as running:
            return pair_through_core(running, arguments, on_code)
    except NotRunning:
        return _pair_alone(paths, arguments, on_code)


def pair_through_core(running: ControlClient, arguments: PairArgs, on_code: OnCode) -> PairOutcome:
    """Let the core pair, and wait for the decision; Ctrl-C takes the code back."""
    shown = convert(running.request("pair", arguments), PairingShown)
    on_code(shown)
    try:
        return convert(running.request("pair-wait", timeout_s=shown.expires_in_s + 60), PairOutcome)
    except KeyboardInterrupt:
        running.request("pair-cancel")
        raise


def _pair_alone(paths: Paths, arguments: PairArgs, on_code: OnCode) -> PairOutcome:
    from worker_core.core.pair_alone import CoreRunning, pair_alone  # loads the whole link, which others need not
    from worker_core.journal.records import JournalError

    try:
        return pair_alone(paths, arguments, on_code)
    except CoreRunning as error:
        raise AnotherRuns(
            "A worker starts in this home right now.", why=str(error), cure="Run this again.", code="busy"
        ) from error
    except (OSError, JournalError) as error:
        cure = "Make this home writable for you, or set STOKER_HOME to a folder that is."
        raise CliError(f"Cannot use the home {paths.data}.", why=str(error), cure=cure, code="bad-home") from error


class _Code(msgspec.Struct, frozen=True):
    """First line of `stoker pair --json`."""

    user_code: str
    verification_uri: str
    expires_in: float
    fingerprint: str


def _show_code(shown: PairingShown, terminal: Terminal) -> None:
    if terminal.json:
        terminal.result(
            _Code(
                user_code=shown.user_code,
                verification_uri=shown.verification_uri,
                expires_in=shown.expires_in_s,
                fingerprint=shown.fingerprint,
            )
        )
        return
    lines = Text.assemble(
        (f"\n{' '.join(shown.user_code)}\n\n", "bold cyan"),
        (f"Open {shown.verification_uri}, sign in as {shown.email},\n", ""),
        ("and type this code. It must show the same words:\n", ""),
        (f"{shown.fingerprint}\n", "bold"),
        justify="center",
    )
    panel = Panel(lines, title="Pairing code", width=min(72, terminal.words.width))
    terminal.words.print(panel, soft_wrap=False)  # else nothing in it is centred
    minutes = max(1, round(shown.expires_in_s / 60))
    terminal.say(f"Waiting for approval; the code is good for {count_of(minutes, 'minute')}. Ctrl-C cancels.")


_REFUSALS = {
    "denied": ("The pairing was denied in the console.", "Start again if that was a mistake.", CliError),
    "expired": ("The code expired before anyone approved it.", "Run the command again for a new code.", CliError),
    "canceled": ("The pairing was cancelled.", "", CliError),
    "failed": ("The pairing failed.", "", CliError),
}


def _tell(outcome: PairOutcome, terminal: Terminal) -> int:
    if terminal.json and (terminal.printed or outcome.state == "approved"):
        terminal.result(outcome)
    if outcome.state == "approved":
        if not terminal.json:
            terminal.done(f"Paired as {outcome.worker_name} with {outcome.account}, {outcome.detail}.")
            terminal.say("  Not whom you expected? End it before any job comes: stoker unpair")
            terminal.say("  Start it with: stoker run  (or stoker app for the desktop)")
        return 0
    what, cure, kind = _REFUSALS[outcome.state]
    raise kind(what, why=outcome.detail, cure=cure, code=f"pairing-{outcome.state}")
