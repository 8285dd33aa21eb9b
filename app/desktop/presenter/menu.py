"""The commands of the desktop: which there are, in which order, and which can be given now.

Tray menu and status window show the same list, so that neither can do more than the other.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.desktop.presenter.giving_back import choices, cost, promise
from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.status import show
from app.desktop.presenter.wording import menu_text
from app.desktop.views import VIEWS
from worker_core.wire.status import WorkerStatus

CommandId = Literal[
    "pair",
    "unpair",
    "give-back:30m",
    "give-back:1h",
    "give-back:4h",
    "give-back:morning",
    "give-back:me",
    "drain",
    "stop",
    "resume",
    "metrics",
    "jobs",
    "logs",
    "console",
    "status",
    "settings",
    "diagnostics",
    "about",
    "update",
    "start",
    "quit",
]
ItemId = (
    CommandId
    | Literal["headline", "detail", "next", "after-status", "after-pairing", "after-modes", "after-views", "after-help"]
    | Literal["give-back", "give-back-cost", "give-back-promise", "after-give-back"]
)

_UNPAIRED_STATES = ("unpaired", "pairing", "revoked")


_CHOICES: dict[str, CommandId] = {
    "30m": "give-back:30m",
    "1h": "give-back:1h",
    "4h": "give-back:4h",
    "morning": "give-back:morning",
    "me": "give-back:me",
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of the menu."""

    id: ItemId
    label: str = ""
    enabled: bool = True
    visible: bool = True
    hint: str = ""
    """What the command does, for a tooltip."""
    children: tuple["Item", ...] = ()
    """The entries of a submenu."""

    @property
    def is_separator(self) -> bool:
        return not self.label


def menu(situation: Situation, now: datetime | None = None) -> tuple[Item, ...]:
    """Return every item, always the same ones in the same order; what changes is label, enabled and visible."""
    now = now or datetime.now()
    shown = show(situation, now)
    status = situation.live
    return (
        Item(id="headline", label=menu_text(shown.headline), enabled=False),
        Item(id="detail", label=menu_text(shown.detail or "–", 80), enabled=False, visible=bool(shown.detail)),
        Item(id="next", label=menu_text(shown.next or "–", 80), enabled=False, visible=bool(shown.next)),
        Item(id="after-status"),
        *_pairing_items(status),
        Item(id="after-pairing"),
        _give_back_item(status, now),
        *_mode_items(status),
        Item(id="after-modes"),
        *_view_items(status),
        Item(id="after-views"),
        *_help_items(status),
        Item(id="after-help"),
        Item(
            id="start",
            label="S&tart the worker",
            visible=situation.link in (Link.ENDED, Link.FAILED),
            hint="Start the worker on this computer again.",
        ),
        Item(id="quit", label="&Quit Stoker", hint="End Stoker; asks what to do with a running job."),
    )


def _pairing_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    unpaired = status is not None and status.state in _UNPAIRED_STATES
    paired = is_paired(status)
    waiting = status is not None and status.state == "pairing"
    return (
        Item(
            id="pair",
            label="Show &pairing code…" if waiting else "&Pair…",
            enabled=unpaired,
            visible=not paired,
            hint="Pair this computer with a coordinator.",
        ),
        Item(
            id="unpair",
            label="&Unpair…",
            enabled=paired,
            visible=paired,
            hint="Remove this worker from its coordinator and forget its key.",
        ),
    )


def _give_back_item(status: WorkerStatus | None, now: datetime) -> Item:
    paired = is_paired(status)
    promised = promise(status.given_back, now) if status is not None else ""
    return Item(
        id="give-back",
        label="&Give me my GPU back",
        enabled=paired,
        visible=paired,
        hint="Save a checkpoint, free the GPU, and take jobs again when the time is over.",
        children=(
            Item(id="give-back-cost", label=menu_text(cost(status), 80), enabled=False, visible=not promised),
            Item(id="give-back-promise", label=menu_text(promised or "–", 80), enabled=False, visible=bool(promised)),
            Item(id="after-give-back"),
            *(Item(id=_CHOICES[choice.id], label=choice.label, enabled=paired) for choice in choices(now)),
        ),
    )


def _mode_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    paired = is_paired(status)
    here = status.mode.here if status else "run"
    held = here != "run" or (status is not None and status.given_back is not None)
    return (
        Item(
            id="drain",
            label="&Drain",
            enabled=paired and here == "run",
            hint="Finish the running job, then take no new one.",
        ),
        Item(
            id="stop",
            label="&Stop",
            enabled=paired and here != "stop",
            hint="Save a checkpoint, stop the running job and take no new one.",
        ),
        Item(
            id="resume",
            label="&Resume",
            enabled=paired and held,
            hint="Take jobs again." if held else "Nothing is drained or stopped on this computer.",
        ),
    )


def _view_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    return (
        Item(id="metrics", label="Live &metrics", hint="Watch return, loss, speed and load of the running job."),
        Item(id="jobs", label="&Jobs", visible="jobs" in VIEWS, hint="What this computer trained, and how it ended."),
        Item(id="logs", label="&Logs", visible="logs" in VIEWS, hint="What the worker and its jobs said."),
        Item(
            id="console",
            label="Open &console",
            enabled=status is not None and status.coordinator is not None,
            hint="Open the coordinator's console in the browser.",
        ),
        Item(id="status", label="Status &window", hint="Everything about this worker in one window."),
    )


def _help_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    update = status.update if status is not None else None
    return (
        Item(id="settings", label="S&ettings…", visible="settings" in VIEWS, hint="When and how this computer trains."),
        Item(
            id="diagnostics",
            label="D&iagnostics…",
            visible="diagnostics" in VIEWS,
            hint="Collect what helps to find a fault, without secrets.",
        ),
        Item(id="about", label="A&bout Stoker", visible="about" in VIEWS, hint="Versions and licences."),
        Item(
            id="update",
            label=f"&Version {update.version} is available…" if update is not None else "No update",
            visible=update is not None,
            hint="How to update this worker.",
        ),
    )


def is_paired(status: WorkerStatus | None) -> bool:
    """Tell whether this worker belongs to a coordinator as far as the core knows."""
    return status is not None and status.worker is not None and status.state not in _UNPAIRED_STATES
