"""How what keeps jobs to themselves is said in one line: status, doctor, demo."""

from worker_core.wire.status import ContainmentShown

_BY = {
    "bubblewrap": "bubblewrap",
    "sandbox-exec": "sandbox-exec",
    "job-object": "a job object, which keeps a job together and not from your files",
    "process-group": "nothing: a job can read what you can",
}


def containment_words(seen: ContainmentShown) -> str:
    """Return one line: by what, whether with network, what is bounded."""
    contained = seen.by in ("bubblewrap", "sandbox-exec")
    network = "network for jobs that ask for it" if seen.network and contained else "no network"
    parts = [_BY[seen.by], *([network] if contained else [])]
    if seen.limits:
        parts.append(f"{' and '.join(seen.limits)} bounded")
    return "; ".join(parts)
