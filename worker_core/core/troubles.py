"""What is wrong now, as reason codes with a sentence each; a trouble stays until its cause is seen to be gone."""

from worker_core.link.faults import TransportFault
from worker_core.wire.problems import ProblemError
from worker_core.wire.vocabulary import Reason

LINK_TROUBLES: tuple[Reason, ...] = (
    "coordinator-unreachable",
    "wrong-coordinator",
    "clock-wrong",
    "cannot-authenticate",
)


def trouble_of(fault: Exception) -> tuple[Reason, str] | None:
    """Return the reason code and the sentence for what a request met; None where it says nothing about the link."""
    if isinstance(fault, TransportFault):
        if fault.cause == "not-ours":
            return "wrong-coordinator", f"What answers is not the coordinator: {fault}."
        if fault.cause == "clock-wrong":
            return "clock-wrong", f"{fault}."
        return "coordinator-unreachable", f"The coordinator cannot be reached: {fault}."
    if isinstance(fault, ProblemError) and _is_about_us(fault):
        text = f"The coordinator does not recognise this worker: {fault}. Its key is kept; if this stays, pair again."
        return "cannot-authenticate", text
    return None


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
