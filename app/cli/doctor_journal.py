"""What `stoker doctor` says of the journal: whether it can be read, and what was set aside."""

from collections.abc import Iterator

from app.cli.doctor_finding import Finding
from worker_core.journal.records import JournalError
from worker_core.journal.summary import read_summary
from worker_core.machine.paths import Paths

_NAMED = 3


def journal_findings(paths: Paths) -> Iterator[Finding]:
    """Look at the journal without touching it."""
    if not paths.state_db.exists():
        yield Finding(name="journal", state="ok", text="No worker has run here yet.")
        return
    try:
        summary = read_summary(paths.state_db)
    except JournalError as error:
        cure = "Move the file away to begin anew; what it holds of unfinished jobs is lost then."
        yield Finding(name="journal", state="problem", text=str(error), cure=cure)
        return
    if not summary.set_aside:
        text = f"{summary.events_waiting:,} events wait for the coordinator, nothing was refused."
        yield Finding(name="journal", state="ok", text=text)
        return
    named = "; ".join(f"{item.what} ({item.reason})" for item in summary.set_aside[:_NAMED])
    more = len(summary.set_aside) - _NAMED
    rest = f"; and {more} more" if more > 0 else ""
    yield Finding(
        name="journal",
        state="warning",
        text=f"The coordinator did not take {len(summary.set_aside)} things: {named}{rest}.",
        cure="They are not sent again. `stoker diagnostics OUT.zip` has the whole list for a report.",
    )
