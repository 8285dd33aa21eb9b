"""`stoker diagnostics OUT.zip`: everything that helps to find a fault, without secrets, in one file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import Json, terminal_of
from app.cli.terminal import Terminal
from worker_core.machine.paths import find_paths

if TYPE_CHECKING:
    from app.cli.diagnostics import BundleEntry


def diagnostics(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The file to write; it must not be there yet.")],
    json: Json = False,
) -> int:
    """Write a report on this worker, without secrets, that can be given to others."""
    from app.cli.diagnostics import gather, listed, write_bundle  # loads what doctor looks at

    terminal = terminal_of(context, json=json)
    parts = gather(find_paths(), dict(os.environ))
    size = write_bundle(out, parts)
    if json:
        terminal.result({"file": str(out), "size_bytes": size, "files": listed(parts)})
    else:
        _show(out, size, listed(parts), terminal)
    return 0


def _show(out: Path, size: int, entries: "list[BundleEntry]", terminal: Terminal) -> None:
    terminal.done(f"Wrote {out} ({size / 1024:.0f} KiB). Known secrets are replaced by [secret]. It holds:")
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        terminal.say(f"  {entry.name:<{width}}  {entry.what}, {entry.size_bytes:,} bytes")
