"""Commands a person could as well do in the console: sign in, approve a pairing, steer workers."""

import sys
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from app.cli.client import CoordinatorClient
from app.cli.credentials import SavedLogin, normalise_url, save_login
from app.cli.errors import CliError, WrongUsage
from app.cli.options import Json, signed_in, terminal_of
from app.cli.status_view import show_workers, styled_state
from app.cli.terminal import Terminal
from worker_core.machine.paths import find_paths
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.wire.client import WorkerView
from worker_core.wire.durations import BadDuration, format_duration, parse_duration
from worker_core.wire.pairing import (
    BadUserCode,
    PairingApproval,
    PairingFound,
    normalise_user_code,
)

Action = Literal["drain", "stop", "resume", "renew", "revoke"]


def login(
    context: typer.Context,
    coordinator: Annotated[str, typer.Option("--coordinator", metavar="URL", help="The coordinator's address.")],
    email: Annotated[str | None, typer.Option("--email", help="Asked for when left out.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
) -> int:
    """Sign in to a coordinator, for the commands about workers and jobs."""
    terminal = terminal_of(context, json=False)
    url = normalise_url(coordinator)
    with CoordinatorClient(url) as client:
        client.meta()
        address = email or _ask(terminal, "E-mail", "Give --email.")
        password = _read_password(terminal, from_stdin=password_stdin)
        KNOWN_SECRETS.add(password)
        token = client.login(address, password)
    path = save_login(find_paths(), SavedLogin(coordinator=url, token=token.token, account=token.account))
    terminal.done(f"Signed in to {url} as {token.account}.")
    terminal.say(f"  The token is kept in {path}, which only you can read.")
    return 0


def _read_password(terminal: Terminal, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return _ask(terminal, "Password", "Give --password-stdin.", hidden=True)


def _ask(terminal: Terminal, what: str, instead: str, *, hidden: bool = False) -> str:
    if not terminal.interactive:
        raise WrongUsage(f"{what} cannot be asked without a terminal.", cure=instead, code="wrong-usage")
    return str(typer.prompt(what, hide_input=hidden, err=True))


def approve(
    context: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code the workstation shows.")],
    name: Annotated[str, typer.Option("--name", help="What the worker shall be called.")],
    authorization: Annotated[
        str, typer.Option("--authorization", metavar="LENGTH", help="How long it may work: 1d, 7d, 30d, 90d.")
    ] = "30d",
    extend: Annotated[bool, typer.Option("--extend", help="Extend the authorization while it is healthy.")] = False,
    jobs: Annotated[str, typer.Option("--jobs", help="Job kinds it may take, or any.")] = "any",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> int:
    """Approve a pairing, as a person would in the console."""
    terminal = terminal_of(context, json=json)
    user_code = _code(code)
    approval = PairingApproval(
        name=name,
        job_scopes=tuple(scope.strip() for scope in jobs.split(",") if scope.strip()),
        authorization_s=_seconds(authorization),
        fingerprint_confirmed=True,
        extend_while_healthy=extend,
    )
    with signed_in() as client:
        found = client.lookup(user_code)
        if not (yes or json):
            _confirm(found, terminal)
        worker = client.approve(found.pairing_id, approval)
    terminal.done(f"{worker.name} is approved for {_length(worker)}.", worker)
    return 0


def _code(text: str) -> str:
    try:
        return normalise_user_code(text)
    except BadUserCode as error:
        raise WrongUsage("This is no pairing code.", why=f"{error}.", code="bad-code") from error


def _seconds(text: str) -> int:
    try:
        return parse_duration(text)
    except BadDuration as error:
        raise WrongUsage("--authorization is not a length of time.", why=f"{error}.", code="wrong-usage") from error


def _confirm(found: PairingFound, terminal: Terminal) -> None:
    host = found.host
    table = Table.grid(padding=(0, 2))
    table.add_row("Machine", Text(f"{found.device_name or host.hostname} ({host.os}, {host.arch})"))
    table.add_row("GPUs", Text(", ".join(gpu.name for gpu in host.gpus) or "none"))
    network = "the same network as you" if found.same_network else "another network than yours"
    table.add_row("Address", Text(f"{found.ip}, {network}", style="" if found.same_network else "bold red"))
    table.add_row("Asked", Text(f"{format_duration(found.age_s)} ago"))
    table.add_row("Fingerprint", Text(found.fingerprint, style="bold"))
    terminal.words.print(table)
    if not terminal.interactive:
        raise WrongUsage("Approval cannot be asked without a terminal.", cure="Give --yes.", code="wrong-usage")
    if not typer.confirm("Does the workstation show the same words, and is it yours?", err=True):
        raise CliError("Not approved.", why="You said no; the code stays open until it expires.", code="not-approved")


def workers(context: typer.Context, json: Json = False) -> int:
    """List the workers of your account."""
    terminal = terminal_of(context, json=json)
    with signed_in() as client:
        terminal.show(client.workers(), show_workers)
    return 0


def worker(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The worker's name or id.")],
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="drain, stop, resume, renew or revoke.")],
    json: Json = False,
) -> int:
    """Drain, stop, resume, renew or revoke a worker."""
    terminal = terminal_of(context, json=json)
    with signed_in() as client:
        target = client.worker(name)
        if action == "revoke" and terminal.interactive:
            _confirm_revoke(target)
        changed = _act(client, target.id, action)
    terminal.done(_told(changed, action), changed)
    if not json and action != "revoke":
        when = "  It is now " if _knows(changed, action) else "  Until then it is "
        terminal.words.print(Text(when).append_text(styled_state(changed.state, changed.reasons)))
    return 0


def _act(client: CoordinatorClient, worker_id: str, action: Action) -> WorkerView:
    if action == "renew":
        return client.renew(worker_id)
    if action == "revoke":
        return client.revoke(worker_id)
    return client.set_mode(worker_id, action)


def _confirm_revoke(target: WorkerView) -> None:
    question = f"Revoke {target.name} for good? A running job ends at once, and it must be paired anew."
    if not typer.confirm(question, err=True):
        raise CliError("Not revoked.", code="not-confirmed")


_TOLD = {
    "drain": "{name} finishes what it runs and takes nothing new.",
    "stop": "{name} stops at a checkpoint and takes nothing new.",
    "resume": "{name} may take jobs again.",
    "renew": "{name} is renewed for {left}.",
    "revoke": "{name} is revoked.",
}


def _knows(changed: WorkerView, action: Action) -> bool:
    return changed.mode_seen or action in ("renew", "revoke")


def _told(changed: WorkerView, action: Action) -> str:
    seen = "" if _knows(changed, action) else " It has not seen this yet."
    return _TOLD[action].format(name=changed.name, left=_length(changed)) + seen


def _length(worker: WorkerView) -> str:
    """Return an authorization that has just begun as long as it was chosen, not a second shorter."""
    return format_duration(60 * round(worker.authorization.remaining_s / 60))
