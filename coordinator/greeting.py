"""What a person at a terminal reads when the coordinator is up: where its console is, and how to get in."""

import shlex
import shutil
import sys
from pathlib import Path


def greeting(url: str, accounts: int, add_account: str) -> str:
    """Return the lines; ``accounts`` is how many there are, ``add_account`` the command that makes one."""
    if accounts == 0:
        known = "There is no account yet. Make yours in another terminal:"
    else:
        known = f"It has {accounts:,} account{'s' * (accounts != 1)}. Another is made with:"
    lines = (f"The console is at {url}", known, f"  {add_account}", "Ctrl-C ends the coordinator; what it knows stays.")
    return "\n" + "".join(f"  {line}\n" for line in lines) + "\n"


def add_account_command(data: str | None) -> str:
    """Return what a person types here to make an account in this data folder; None stands for the usual one."""
    folder = [] if data is None else ["--data", data]
    return " ".join([_own_command(), *map(shlex.quote, ["account", "add", "you@example.org", *folder])])


def _own_command() -> str:
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m coordinator"
    found = shutil.which(program.name)
    same = found is not None and Path(found).resolve() == program.resolve()
    return program.name if same else shlex.quote(sys.argv[0])
