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
    """Decide what Quit does: ask while a job runs on, end an idle core that the desktop started, leave others alone.

    A job that is being stopped already is nothing to ask about: it saves its checkpoint and ends by itself.
    """
    status = situation.live
    if status is None:
        return QuitPlan()
    if status.job is not None and not _is_stopping(status):
        return QuitPlan(ask=job_name(status.job)) if remembered is None else chosen(remembered)
    return QuitPlan(request="checkpoint" if _ends_with_desktop(status) else None)


def plan_unanswered(situation: Situation) -> QuitPlan | None:
    """Return what becomes of a question nobody answered: None while its job runs on, else what is left to do.

    A job that was stopped decides it. One that ended by itself leaves the default: the worker goes on.
    """
    plan = plan_quit(situation, None)
    if plan.ask is not None:
        return None
    status = situation.live
    return plan if status is not None and _is_stopping(status) else QuitPlan()


def chosen(choice: QuitChoice) -> QuitPlan:
    """Return the plan of an answer."""
    requests: dict[QuitChoice, CoreRequest | None] = {"keep": None, "drain": "drain", "stop": "checkpoint"}
    return QuitPlan(request=requests[choice])


def _is_stopping(status: WorkerStatus) -> bool:
    return "stop" in (status.mode.here, status.mode.console)


def _ends_with_desktop(status: WorkerStatus) -> bool:
    return status.started_by == "desktop"
