"""How the console says things: states, reasons, sizes, numbers and times as people read them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from worker_core.wire.client import WorkerView
from worker_core.wire.durations import format_duration
from worker_core.wire.pairing import Gpu, Host
from worker_core.wire.vocabulary import Mode, Reason


@dataclass(frozen=True)
class Shown:
    """A state on screen: its word, its icon and its tone; never by colour alone."""

    word: str
    icon: str
    tone: str


WORKER_STATES: dict[str, Shown] = {
    "unpaired": Shown("not paired", "offline", "grey"),
    "pairing": Shown("pairing", "queued", "grey"),
    "connecting": Shown("offline", "offline", "grey"),
    "available": Shown("available", "available", "green"),
    "training": Shown("training", "training", "blue"),
    "draining": Shown("draining", "draining", "amber"),
    "paused": Shown("paused", "paused", "slate"),
    "offline": Shown("offline", "offline", "grey"),
    "problem": Shown("needs attention", "problem", "red"),
    "expired": Shown("expired", "expired", "red"),
    "revoked": Shown("revoked", "revoked", "grey"),
}
JOB_STATES: dict[str, Shown] = {
    "queued": Shown("queued", "queued", "grey"),
    "offered": Shown("queued (offered)", "queued", "amber"),
    "running": Shown("running", "training", "blue"),
    "canceling": Shown("canceling", "canceling", "amber"),
    "succeeded": Shown("succeeded", "available", "green"),
    "failed": Shown("failed", "failed", "red"),
    "canceled": Shown("canceled", "canceled", "slate"),
    "withdrawn": Shown("withdrawn", "canceled", "grey"),
    "lost": Shown("lost", "offline", "amber"),
    "superseded": Shown("superseded", "canceled", "grey"),
    "released": Shown("released", "paused", "slate"),
    "revoked": Shown("revoked", "revoked", "grey"),
}
REASONS: dict[str, str] = {
    "drained": "Drained: takes no new job",
    "stopped": "Stopped: runs nothing",
    "keystore-locked": "Its keystore is locked; unlock it on the workstation",
    "coordinator-unreachable": "Trains on without contact to this coordinator",
    "clock-wrong": "Its clock is wrong",
    "cannot-authenticate": "It cannot prove who it is",
    "wrong-coordinator": "It is paired with another coordinator",
    "credential-conflict": "Two machines use its credential",
    "confirm-needed": "Waits for a person's confirmation after a restore",
    "copied-home": "Another worker on that computer uses a copy of its files",
    "asks-for-renewal": "Asks a person to renew its authorization",
    "disk-full": "Its disk is full",
    "journal-unwritable": "It cannot write its journal",
    "outbox-full": "Too much waits there to be delivered",
    "disk-slow": "Its disk is slow to write",
    "device-missing": "The device it trained on is gone",
    "no-containment": "Nothing there keeps a job from its owner's files; stoker doctor says how to change that",
    "job-stuck": "A job cannot be ended there; restart that computer if it stays",
    "gpu-quarantined": "A GPU failed too often and gets no more jobs; test it again there",
    "gpu-untested": "A GPU is being tested before it gets a job",
    "gpu-memory-held": "An ended job still holds memory of a GPU",
    "gpu-busy": "Other programs use a GPU",
    "gpu-silent": "The driver of its GPU does not answer",
    "gpu-session": "It runs as a service, where there is no GPU",
}
LAST_MOMENT_S = 253_402_300_799.0
"""The end of the year 9999."""
MODE_ASKED = {"drain": "Drain", "stop": "Stop", "run": "Resume"}
MODE_WILL = {"drain": "drain", "stop": "stop", "run": "resume"}
OBEYED: dict[Mode, frozenset[str]] = {
    "run": frozenset(WORKER_STATES) - {"draining", "paused"},
    "drain": frozenset({"draining", "paused", "revoked"}),
    "stop": frozenset({"paused", "revoked"}),
}
"""States in which a worker does what was asked, whatever else it has not heard of yet."""
ATTENTION_ORDER = (
    "problem",
    "expired",
    "offline",
    "connecting",
    "paused",
    "draining",
    "training",
    "available",
    "pairing",
    "unpaired",
    "revoked",
)


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def worker_status(state: str) -> Shown:
    """Return how a worker's state is shown; an unknown word is shown as it is."""
    return WORKER_STATES.get(state) or Shown(state, "problem", "red")


def job_status(state: str, offered: bool = False) -> Shown:
    """Return how a job's or an attempt's state is shown."""
    key = "offered" if offered and state == "queued" else state
    return JOB_STATES.get(key) or Shown(state, "problem", "red")


def reason_words(reason: Reason) -> str:
    """Return a reason code as a short sentence without a full stop."""
    if reason == "owner:given-back":
        return "The owner has the GPU back"
    if reason.startswith("owner:"):
        return f"Paused by the owner's rule “{reason.removeprefix('owner:')}”"
    return REASONS.get(reason, reason[:1].upper() + reason[1:].replace("-", " "))


def sentence(text: str) -> str:
    """Return a refusal's detail as a sentence."""
    trimmed = text.strip()
    ended = not trimmed or trimmed.endswith((".", "!", "?", "”"))
    return trimmed[:1].upper() + trimmed[1:] + ("" if ended else ".")


def by_attention(workers: Sequence[WorkerView]) -> list[WorkerView]:
    """Return the workers with those that need a person first, then by name."""
    rank = {state: place for place, state in enumerate(ATTENTION_ORDER)}
    return sorted(workers, key=lambda worker: (rank.get(worker.state, 0), worker.name.casefold()))


def unconfirmed(worker: WorkerView) -> str | None:
    """Say that the worker has not yet seen the wanted mode, and for how long; ``None`` when it has."""
    if worker.mode_seen or worker.state in OBEYED[worker.console_mode]:
        return None
    age = worker.mode_since_s
    asked = MODE_ASKED[worker.console_mode]
    if age is not None and age >= 60:
        will = MODE_WILL[worker.console_mode]
        return f"{asked} requested {format_duration(age)} ago. No answer; it will {will} when it reconnects"
    when = "" if age is None else f" {format_duration(age)} ago"
    return f"{asked} requested{when}, worker has not confirmed"


def expiry_tone(remaining_s: float) -> str:
    """Return the tone of an authorization that ends in so many seconds: red for a day, amber for a week."""
    if remaining_s <= 86400:
        return "red"
    return "amber" if remaining_s <= 7 * 86400 else ""


def size_words(size_bytes: float) -> str:
    """Return a size with a binary unit: ``24.0 GiB``, ``512 B``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def gpu_words(gpu: Gpu) -> str:
    """Return a GPU's name and memory."""
    return f"{gpu.name} · {size_words(gpu.memory_bytes)}" if gpu.memory_bytes else gpu.name


def device_words(host: Host) -> str:
    """Return what the workstation trains on: its GPUs, or its processor."""
    if host.gpus:
        return ", ".join(gpu_words(gpu) for gpu in host.gpus)
    cores = f"{host.cpus} cores" if host.cpus else "CPU"
    return f"No GPU · {cores}" + (f" · {host.ram_gb:.0f} GB memory" if host.ram_gb else "")


def number_words(value: float | str | None) -> str:
    """Return a number with four significant digits, scientific below 1e-3 and from 1e6; words for non-finite."""
    if value is None:
        return "–"
    number = float(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else ("∞" if number > 0 else "−∞")
    if number == 0:
        return "0"
    size = abs(number)
    if size < 1e-3 or size >= 1e6:
        digits, exponent = f"{number:.3e}".split("e")
        return f"{digits}e{int(exponent)}".replace("-", "−")
    digits = max(0, 3 - math.floor(math.log10(size)))
    text = f"{number:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−", 1)


def count_words(value: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{int(value):,}"


def percent_words(share: float) -> str:
    """Return a share as whole per cent; 100 only when it is all done."""
    return f"{min(99, int(share * 100)) if share < 1 else 100} %"


def age_words(seconds: float | None) -> str:
    """Return ``4 s ago``, or that it never happened."""
    return "never" if seconds is None else f"{format_duration(seconds)} ago"


def parse_time(text: str) -> datetime:
    """Return the moment written in RFC 3339."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def moment(unix_s: float) -> str:
    """Return a moment as RFC 3339 in UTC; one that no calendar has, as a worker may claim, is shown as the nearest."""
    return (
        datetime.fromtimestamp(min(max(unix_s, 0.0), LAST_MOMENT_S), UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def day_words(text: str) -> str:
    """Return ``30 Nov 2026, 10:04 UTC`` for a moment written in RFC 3339."""
    at = parse_time(text).astimezone(UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def detail_words(text: str) -> str:
    """Return what the history tells besides with a capital letter, and its moments as days are shown."""

    def shown(found: re.Match[str]) -> str:
        try:
            return day_words(found[0])
        except ValueError:
            return found[0]  # a person wrote it, and it is none

    return _MOMENT.sub(shown, text[:1].upper() + text[1:])


def duration_words(seconds: float | None) -> str:
    """Return a duration, or a dash for none."""
    return "–" if seconds is None else format_duration(seconds)


def between(started: str | None, ended: str | None, now: float) -> float | None:
    """Return the seconds from start to end, or to ``now`` while it lasts."""
    if started is None:
        return None
    end = parse_time(ended).timestamp() if ended else now
    return max(0.0, end - parse_time(started).timestamp())
