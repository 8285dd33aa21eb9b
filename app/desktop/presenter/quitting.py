"""What Quit means now: whether to ask, and what to ask the core for."""

from dataclasses import dataclass
from typing import Literal

from app.desktop.presenter.situation import Situation
from app.desktop.presenter.status import job_name
from worker_core.wire.status import WorkerStatus

QuitChoice = Literal["keep", "drain", "stop"]
CoreRequest = Literal["checkpoint", "drain"]


@dataclass(frozen=True, kw_only=True)
class QuitPlan:
    """``ask`` names the job to ask about; otherwise the desktop leaves after ``request`` reached the core."""

    ask: str | None = None
    request: CoreRequest | None = None


def plan_quit(situation: Situation, remembered: QuitChoice | None) -> QuitPlan:
    """Decide what Quit does: ask while a job runs, end an idle core that the desktop started, leave any other alone."""
    status = situation.live
    if status is None:
        return QuitPlan()
    if status.job is not None:
        return QuitPlan(ask=job_name(status.job)) if remembered is None else chosen(remembered)
    return QuitPlan(request="checkpoint" if _ends_with_desktop(status) else None)


def chosen(choice: QuitChoice) -> QuitPlan:
    """Return the plan of an answer."""
    requests: dict[QuitChoice, CoreRequest | None] = {"keep": None, "drain": "drain", "stop": "checkpoint"}
    return QuitPlan(request=requests[choice])


def _ends_with_desktop(status: WorkerStatus) -> bool:
    return status.started_by == "desktop"
