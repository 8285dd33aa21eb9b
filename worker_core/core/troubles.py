"""What is wrong now, as reason codes with a sentence each; a trouble stays until its cause is seen to be gone."""

from worker_core.link.faults import TransportFault
from worker_core.wire.durations import format_duration
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import Reason

LINK_TROUBLES: tuple[Reason, ...] = (
    "coordinator-unreachable",
    "wrong-coordinator",
    "clock-wrong",
    "cannot-authenticate",
)


_UNKNOWN = (
    "The coordinator at this address does not know this worker: another one answers there, or it was set up anew. "
    "The worker's key is kept. If this stays, unpair, then pair again."
)


_REPLACED = (
    "A person kept another machine in this worker's place, so the key on this computer is dead. If this is the right "
    "machine, unpair and pair again."
)


def trouble_of(fault: Exception) -> tuple[Reason, str] | None:
    """Return the reason code and the sentence for what a request met; None where it says nothing about the link."""
    if isinstance(fault, TransportFault):
        if fault.cause == "not-ours":
            return "wrong-coordinator", f"What answers is not the coordinator: {_told(fault)} It is tried again."
        if fault.cause == "clock-wrong":
            return "clock-wrong", f"The clock of this computer is wrong: {_told(fault)}"
        return "coordinator-unreachable", f"The coordinator cannot be reached: {_told(fault)} It is tried again."
    if isinstance(fault, ProblemError) and fault.code == "worker-unknown":
        return "cannot-authenticate", _UNKNOWN
    if isinstance(fault, ProblemError) and fault.code == "key-replaced":
        return "cannot-authenticate", _REPLACED
    if isinstance(fault, ProblemError) and _is_about_us(fault):
        text = f"The coordinator does not recognise this worker: {fault}. Its key is kept; if this stays, pair again."
        return "cannot-authenticate", text
    return None


def _told(fault: Exception) -> str:
    text = str(fault)
    return text if text.endswith((".", "?")) else f"{text}."


def clock_words(offset_s: float) -> str:
    """Say by how much this clock is wrong; ``offset_s`` is the coordinator's time minus ours."""
    away = format_duration(60 * round(abs(offset_s) / 60))  # a Date header is no finer than seconds
    return f"This computer's clock is {away} {'behind' if offset_s > 0 else 'ahead of'} the coordinator's. Set it."


def _is_about_us(fault: ProblemError) -> bool:
    return fault.problem.status == 401 and fault.problem.action not in ("retry", "new_token")


class Troubles:
    """The troubles that hold now."""

    def __init__(self) -> None:
        self._held: dict[Reason, str] = {}

    def __contains__(self, reason: Reason) -> bool:
        return reason in self._held

    def set(self, reason: Reason, text: str) -> bool:
        """Note a trouble; True when it is new."""
        new = reason not in self._held
        self._held[reason] = text
        return new

    def clear(self, *reasons: Reason) -> bool:
        """Note that troubles are over; True when one was there."""
        held = [reason for reason in reasons if reason in self._held]
        for reason in held:
            del self._held[reason]
        return bool(held)

    def clear_all(self) -> None:
        """Forget every trouble: they were those of another membership."""
        self._held.clear()

    def as_dict(self) -> dict[Reason, str]:
        """Return a copy."""
        return dict(self._held)
