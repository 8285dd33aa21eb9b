"""Numbers, times and reasons as people read them."""

import math
from collections.abc import Sequence
from urllib.parse import urlsplit

from app.desktop.presenter.owner import rule_in_words
from worker_core.wire.codec import Number, number_from_wire
from worker_core.wire.durations import format_duration

_REASONS = {
    "drained": "No new jobs are taken.",
    "stopped": "Stopped.",
    "keystore-locked": "The key store is locked. Unlock it to go on.",
    "coordinator-unreachable": "The coordinator cannot be reached; training goes on.",
    "clock-wrong": "This computer's clock is wrong. Set it to go on.",
    "cannot-authenticate": "The coordinator does not accept this worker's key.",
    "wrong-coordinator": "The coordinator at this address is not the one this worker was paired with.",
    "credential-conflict": "Another machine uses this worker's key. Decide in the console which one stays.",
    "confirm-needed": "The coordinator was restored. Confirm this worker in the console.",
    "upgrade-required": "The coordinator needs a newer Stoker for new jobs.",
    "copied-home": "Stoker's files here are a copy of another worker's.",
    "asks-for-renewal": "The authorization ends soon. Renew it in the console.",
    "disk-full": "The disk is full. Free some space to go on.",
    "journal-unwritable": "The worker's journal cannot be written.",
    "outbox-full": "Too much waits for the coordinator; no job is taken until most of it has arrived.",
    "disk-slow": "The disk is slow to write; a running job may have to wait for it.",
    "device-missing": "The device for training is missing.",
    "no-containment": "Nothing here keeps a job from your files, so none is taken.",
    "job-stuck": "A job cannot be ended. Restart the computer if that stays.",
    "gpu-quarantined": "A GPU failed too often and gets no more jobs.",
    "gpu-untested": "A GPU is being tested before it gets a job.",
    "gpu-memory-held": "An ended job still holds memory of a GPU.",
    "gpu-busy": "Other programs use the GPU.",
    "gpu-silent": "The GPU's driver does not answer. Restart the computer if it goes on.",
    "gpu-session": "Started as a service, this worker has no GPU.",
}


def reason_in_words(reason: str) -> str:
    """Return a reason code as a sentence; a code nobody knows is shown as it is."""
    known = _REASONS.get(reason)
    if known:
        return known
    if reason == "owner:given-back":
        return "You have the GPU."
    if reason.startswith("owner:") and (of_rule := rule_in_words(reason.removeprefix("owner:"))) is not None:
        return of_rule
    if reason.startswith("owner:"):
        return f"Paused by your rule “{reason.removeprefix('owner:')}”."
    return f"Reason: {reason}."


def reasons_in_words(reasons: Sequence[str]) -> str:
    """Return several reason codes as sentences, in their order."""
    return " ".join(reason_in_words(reason) for reason in reasons)


def countdown(seconds: float) -> str:
    """Return ``9:05``, and ``0:00`` when the time is up."""
    whole = max(0, math.ceil(seconds))
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{rest // 60}:{rest % 60:02d}"


def ago(seconds: float) -> str:
    """Return how long ago something was: ``just now``, ``12 s ago``."""
    return "just now" if seconds < 2 else f"{format_duration(seconds)} ago"


def left(seconds: float | None) -> str:
    """Return the time left: ``3 min 20 s left``; empty when nobody knows."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    return "almost done" if seconds < 1 else f"{format_duration(seconds)} left"


def percent(share: float) -> str:
    """Return a share of one as whole percent; 100 % only when all is done."""
    whole = math.floor(min(max(share, 0.0), 1.0) * 100)
    return f"{whole} %"


def count(value: int) -> str:
    """Return a count with its thousands set apart."""
    return f"{value:,}"


def size(size_bytes: float) -> str:
    """Return a size in binary steps: ``23.5 GB``."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"


def figure(value: Number | None) -> str:
    """Return a measured value with about four digits; ``NaN`` and infinities are said, not hidden."""
    if value is None:
        return "–"
    number = number_from_wire(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    magnitude = abs(number)
    if magnitude != 0 and (magnitude < 0.001 or magnitude >= 1e7):
        text = f"{number:.2e}"
    elif magnitude >= 1000:
        text = f"{number:,.0f}"
    else:
        text = f"{number:.{3 if magnitude < 1 else 2 if magnitude < 10 else 1}f}"
    return text.replace("-", "−")


def host_of(coordinator: str | None) -> str:
    """Return the coordinator's host as people say it; loopback is "this computer"."""
    if not coordinator:
        return "the coordinator"
    parts = urlsplit(coordinator)
    if parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return "this computer"
    return parts.netloc or coordinator


def menu_text(text: str, limit: int = 64) -> str:
    """Return free text for a menu entry: one line, bounded, its ampersands not taken for mnemonics."""
    line = " ".join(text.split())
    short = line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
    return short.replace("&", "&&")
