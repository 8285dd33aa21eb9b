"""The command ``stoker-coordinator``: serve, account add and password, token add, key next and switch, restored."""

import argparse
import getpass
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from coordinator.errors import HostError
from coordinator.storage.data_folder import FolderInUse

DEFAULT_PORT = 8765


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    verbose = arguments.verbose or os.environ.get("STOKER_DEBUG") == "1"
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "httpcore", "alembic", "asyncio", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return 130
    except FolderInUse as error:
        return _fail(str(error), 4, verbose)
    except HostError as error:
        return _fail(str(error), 1, verbose)
    except Exception as error:
        return _fail(_describe(error), 1, verbose)


def _run(arguments: argparse.Namespace) -> int:
    data = Path(arguments.data) if arguments.data else default_data()
    if arguments.command == "serve":
        from coordinator.greeting import add_account_command
        from coordinator.serve import serve

        add_account_by = add_account_command(arguments.data) if sys.stderr.isatty() and not arguments.json else None
        return serve(data, arguments.host, arguments.port, arguments.public_url, add_account_by=add_account_by)
    if arguments.command in ("key", "restored"):
        from coordinator.host_keys import prepare_next_key, switch_key, tell_restored

        if arguments.command == "restored":
            _say(tell_restored(data))
        elif arguments.action == "next":
            _say(prepare_next_key(data))
        else:
            _say(switch_key(data, force=arguments.force))
        return 0
    from coordinator.host_commands import add_account, add_token, set_password

    if arguments.command == "account" and arguments.action == "password":
        set_password(data, arguments.email, _password(arguments))
        _say(f"{arguments.email} has another password; whoever was signed in with the old one is out")
    elif arguments.command == "account":
        add_account(data, arguments.email, _password(arguments))
        _say(f"account {arguments.email} made")
    else:
        _say(add_token(data, arguments.email))
    return 0


def default_data() -> Path:
    """Return where a coordinator keeps its things when nothing else is said."""
    return Path(platformdirs.user_data_dir("Stoker", appauthor=False)) / "coordinator-host"


def _parser() -> argparse.ArgumentParser:
    description = "Host a coordinator for Stoker workers."
    parser = argparse.ArgumentParser(
        prog="stoker-coordinator", description=description, parents=[_shared(data=None, verbose=False)]
    )
    # Typed before the command or behind it, they mean the same: below, only what was typed counts.
    shared = _shared(data=argparse.SUPPRESS, verbose=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", parents=[shared], help="serve workers, scripts and the console")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    serve.add_argument("--port", type=_port, default=DEFAULT_PORT, help=f"0 picks one (default: {DEFAULT_PORT})")
    serve.add_argument("--public-url", metavar="URL", help="https:// address under which a TLS proxy shows this server")
    serve.add_argument("--json", action="store_true", help="for scripts; the first line is JSON in any case")
    account = commands.add_parser("account", parents=[shared], help="people").add_subparsers(
        dest="action", required=True
    )
    change = "give an account another password; it ends all log-ins"
    for action, told in (("add", "make an account"), ("password", change)):
        add = account.add_parser(action, parents=[shared], help=told)
        add.add_argument("email")
        add.add_argument("--password-stdin", action="store_true", help="read the password from stdin")
    token = commands.add_parser("token", parents=[shared], help="API tokens").add_subparsers(
        dest="action", required=True
    )
    add = token.add_parser("add", parents=[shared], help="make an API token; it is shown once, on the last line")
    add.add_argument("email")
    key = commands.add_parser("key", parents=[shared], help="the key it signs with").add_subparsers(
        dest="action", required=True
    )
    key.add_parser("next", parents=[shared], help="make the next key; workers hear of it at their next contact")
    switch = key.add_parser("switch", parents=[shared], help="sign with the next key from now on")
    switch.add_argument("--force", action="store_true", help="even if workers would have to pair again")
    told = "say that the whole data folder was brought back from a copy"
    commands.add_parser("restored", parents=[shared], help=told)
    return parser


def _shared(*, data: str | None, verbose: bool | str) -> argparse.ArgumentParser:
    """Return the options that every command knows, with the values they have when they are not typed."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--data", metavar="DIR", default=data, help="data folder (default: the user's data folder)")
    told = "say more on stderr, tracebacks included"
    shared.add_argument("--verbose", action="store_true", default=verbose, help=told)
    return shared


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("a port lies between 0 and 65535")
    return port


def _password(arguments: argparse.Namespace) -> str:
    if arguments.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise HostError("no terminal to ask for the password; use --password-stdin")
    password = getpass.getpass(f"Password for {arguments.email}: ")
    if getpass.getpass("Again: ") != password:
        raise HostError("the two passwords differ")
    return password


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _fail(message: str, code: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc()
    sys.stderr.write(f"stoker-coordinator: {message}\n")
    return code


def _describe(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return f"{text} (STOKER_DEBUG=1 shows where)"


if __name__ == "__main__":
    sys.exit(main())
