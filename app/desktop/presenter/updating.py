"""What to do about a newer Stoker. Nothing is downloaded from here: how it came is how it is updated."""

from worker_core.wire.status import WorkerStatus


def how_to_update(status: WorkerStatus) -> tuple[str, str]:
    """Return a headline and the next step; a running job is never disturbed for it."""
    version = status.update.version if status.update is not None else ""
    first = "Let the running job finish first: choose Drain. " if status.job is not None else ""
    text = (
        f"The coordinator runs Stoker {version}, this computer {status.version}. {first}Update Stoker the way it was "
        "installed, for example with “pip install --upgrade stoker”, then quit it here and start it again."
    )
    return f"Stoker {version} is available", text
