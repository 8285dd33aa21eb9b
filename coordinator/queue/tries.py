"""How often a job may fail: pure. Failures in a row without progress count; progress starts the count anew.

A long job outlives any number of reboots, because each of its attempts gets further than the one before. A job that
fails at the same place again and again gets no further, and ends after ``max_attempts``.
"""


def failures_after(failures: int, began_at: int | None, newest: int | None) -> int:
    """Return the failures of a job after another attempt of it has failed.

    ``began_at`` is the step of the checkpoint the attempt began with and ``newest`` that of the newest one it
    delivered; None where there is none.
    """
    progressed = newest is not None and (began_at is None or newest > began_at)
    return 1 if progressed else failures + 1
