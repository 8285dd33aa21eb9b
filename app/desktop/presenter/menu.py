"""The commands of the desktop: which there are, in which order, and which can be given now.

Tray menu and status window show the same list, so that neither can do more than the other.
"""

from dataclasses import dataclass
from typing import Literal

from app.desktop.presenter.situation import Link, Situation
from app.desktop.presenter.status import show
from app.desktop.presenter.wording import menu_text
from worker_core.wire.status import WorkerStatus

CommandId = Literal["pair", "unpair", "drain", "stop", "resume", "metrics", "console", "status", "start", "quit"]
ItemId = CommandId | Literal["headline", "detail", "after-status", "after-pairing", "after-modes", "after-views"]

_UNPAIRED_STATES = ("unpaired", "pairing", "revoked")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of the menu."""

    id: ItemId
    label: str = ""
    enabled: bool = True
    visible: bool = True
    hint: str = ""
    """What the command does, for a tooltip."""

    @property
    def is_separator(self) -> bool:
        return not self.label


def menu(situation: Situation) -> tuple[Item, ...]:
    """Return every item, always the same ones in the same order; what changes is label, enabled and visible."""
    shown = show(situation)
    return (
        Item(id="headline", label=menu_text(shown.headline), enabled=False),
        Item(id="detail", label=menu_text(shown.detail or "–", 80), enabled=False, visible=bool(shown.detail)),
        Item(id="after-status"),
        *_pairing_items(situation.live),
        Item(id="after-pairing"),
        *_mode_items(situation.live),
        Item(id="after-modes"),
        *_view_items(situation.live),
        Item(id="after-views"),
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


def _mode_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    paired = is_paired(status)
    here = status.mode.here if status else "run"
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
            enabled=paired and here != "run",
            hint="Take jobs again." if here != "run" else "Nothing is drained or stopped on this computer.",
        ),
    )


def _view_items(status: WorkerStatus | None) -> tuple[Item, ...]:
    return (
        Item(id="metrics", label="Live &metrics", hint="Watch return, loss, speed and load of the running job."),
        Item(
            id="console",
            label="Open &console",
            enabled=status is not None and status.coordinator is not None,
            hint="Open the coordinator's console in the browser.",
        ),
        Item(id="status", label="Status &window", hint="Everything about this worker in one window."),
    )


def is_paired(status: WorkerStatus | None) -> bool:
    """Tell whether this worker belongs to a coordinator as far as the core knows."""
    return status is not None and status.worker is not None and status.state not in _UNPAIRED_STATES
