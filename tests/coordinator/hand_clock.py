"""A clock that only a test moves."""


class HandClock:
    """Both clocks of the coordinator, set by hand."""

    def __init__(self, time: float = 1_000_000.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time
