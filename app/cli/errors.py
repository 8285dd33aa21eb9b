"""What can go wrong in a command, each with its exit code.

CliError                     1  the thing asked for failed or is refused
├── WrongUsage               2  the command line or a file given on it is wrong
├── NotAvailable             3  not paired, not running, not reachable
│   ├── NotRunning
│   ├── NotSignedIn
│   └── Unreachable
│       └── NotACoordinator
└── AnotherRuns              4  another instance holds this home
"""

from collections.abc import Sequence

from worker_core.wire.problems import FieldError, Problem


class CliError(Exception):
    """What happened, why, and what to do; a command never shows a traceback instead."""

    exit_code = 1

    def __init__(
        self, what: str, *, why: str = "", cure: str = "", code: str = "failed", details: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(" ".join(part for part in (what, why, cure) if part))
        self.what = what
        self.why = why
        self.cure = cure
        self.code = code
        self.details = tuple(details)


class WrongUsage(CliError):
    """The command line, or a file it names, is wrong."""

    exit_code = 2


class NotAvailable(CliError):
    """Something this command needs is not there."""

    exit_code = 3


class NotRunning(NotAvailable):
    """No core runs in this home."""

    def __init__(self, home: str) -> None:
        super().__init__(
            "No worker runs here.", why=f"Its home is {home}.", cure="Start it with: stoker run", code="not-running"
        )


class NotSignedIn(NotAvailable):
    """No credentials for the coordinator."""

    def __init__(self, why: str = "") -> None:
        super().__init__(
            "You are not signed in to a coordinator.",
            why=why,
            cure="Run: stoker login --coordinator URL (or set STOKER_COORDINATOR and STOKER_TOKEN)",
            code="not-signed-in",
        )


class Unreachable(NotAvailable):
    """No answer from the coordinator."""


class NotACoordinator(Unreachable):
    """Something answered, but it is not a Stoker coordinator."""


class AnotherRuns(CliError):
    """Another instance holds this home."""

    exit_code = 4


_CURES = {
    "not-signed-in": "Run: stoker login --coordinator URL",
    "bad-credentials": "Check the e-mail and the password.",
    "step-up-required": "Set STOKER_TOKEN to a token made on its host: stoker-coordinator token add EMAIL.",
    "forbidden": "Set STOKER_TOKEN to a token made on its host: stoker-coordinator token add EMAIL.",
    "code-not-found": "Check the code; codes are good for 15 minutes and for the e-mail they were made with.",
    "pairing-expired": "Start again on the workstation: stoker pair",
    "name-taken": "Choose another name with --name.",
    "bad-spec": "Correct these fields and submit again; stoker submit --dry-run checks without sending.",
}


def from_problem(problem: Problem, doing: str = "") -> CliError:
    """Turn the coordinator's answer into an error of a command."""
    kind = NotAvailable if problem.code == "not-signed-in" else CliError
    return kind(
        f"{doing}: {problem.title.lower()}." if doing else f"{problem.title}.",
        why=_beyond(problem.title, problem.detail),
        cure=_CURES.get(problem.code, ""),
        code=problem.code,
        details=problem.errors,
    )


def _beyond(title: str, detail: str) -> str:
    """Return what a detail says that the title has not said already."""
    rest = detail[len(title) :]
    repeats = detail.lower().startswith(title.lower()) and rest[:1] in ("", ".", ";", ":")
    return rest.lstrip(".;: ") if repeats else detail
