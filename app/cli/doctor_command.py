"""`stoker doctor`: every precondition with ok, warning or problem, and its cure."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from app.cli.options import Json, terminal_of
from app.cli.terminal import Terminal, count_of
from worker_core.machine.paths import find_paths

if TYPE_CHECKING:
    from app.cli.doctor_finding import Finding

_SIGNS = {"ok": ("✓", "bold green"), "warning": ("!", "bold yellow"), "problem": ("✗", "bold red")}


RetestGpu = Annotated[
    bool, typer.Option("--retest-gpu", help="Only test the worker's GPUs now; one in quarantine that passes is back.")
]


def doctor(context: typer.Context, json: Json = False, retest_gpu: RetestGpu = False) -> int:
    """Check everything a worker needs on this machine."""
    from app.cli.doctor import examine  # what it looks at is much; other commands start without it
    from app.cli.gpu_test import retest_gpus

    terminal = terminal_of(context, json=json)
    findings = retest_gpus(find_paths()) if retest_gpu else examine(find_paths())
    healthy = all(finding.state != "problem" for finding in findings)
    if json:
        terminal.result({"ok": healthy, "checks": findings})
    else:
        _show(findings, terminal)
    return 0 if healthy else 1


def _show(findings: "list[Finding]", terminal: Terminal) -> None:
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        sign, style = _SIGNS[finding.state]
        text = Text(finding.text)
        if finding.cure:
            text.append(f"\n{finding.cure}", style="italic")
        table.add_row(Text(sign, style=style), Text(finding.name, style="bold"), text)
    terminal.words.print(table)
    problems = sum(finding.state == "problem" for finding in findings)
    warnings = sum(finding.state == "warning" for finding in findings)
    terminal.say()
    counted = f"{count_of(problems, 'problem')}, {count_of(warnings, 'warning')}."
    terminal.say(counted if problems or warnings else "Everything is in order.")
