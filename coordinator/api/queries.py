"""Numbers in query strings."""

from collections.abc import Mapping

from worker_core.wire.problems import problem


def number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a whole number of a query string; raises ``invalid-request`` for anything else."""
    text = query.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise problem("invalid-request", f"{name} is a whole number, not {text[:40]!r}") from error
    if abs(value) >= 2**63:
        raise problem("invalid-request", f"{name} is too large")
    return value
