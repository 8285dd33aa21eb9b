"""History: who did what to workers and pairings, and what of it a person should hear about at once."""

from dataclasses import dataclass

from starlette.responses import Response

from coordinator.accounts.audit import Act
from coordinator.api.queries import number
from coordinator.console.doors import page
from coordinator.console.pages import Visit, show
from worker_core.wire.client import AuditEntry

PAGE = 100
ALERT_FOR_S = 86400.0
MAX_ALERTS = 3
ALERTS: dict[Act, str] = {
    "codes locked": "Wrong pairing codes were typed",
    "pairing switched off": "Pairing was switched off",
}
"""What is told on the workers' page for a day."""


@dataclass(frozen=True)
class Alert:
    """Something a person should hear about without looking for it."""

    title: str
    entry: AuditEntry


async def alerts(visit: Visit) -> list[Alert]:
    """Return what happened in the last day that may be an attack, newest first."""
    since = visit.now - ALERT_FOR_S
    entries = await visit.services.audit.since(visit.person.account_id, tuple(ALERTS), since, MAX_ALERTS)
    return [Alert(title, entry) for entry in entries for act, title in ALERTS.items() if act == entry.act]


async def _history(visit: Visit) -> Response:
    before = number(visit.request.query_params, "before", 0) or None
    entries = await visit.services.audit.page(visit.person.account_id, PAGE, before)
    older = f"/history?before={entries[-1].id}" if len(entries) == PAGE else ""
    return show(visit, "history.html", entries=entries, older=older)


history_page = page(_history)
