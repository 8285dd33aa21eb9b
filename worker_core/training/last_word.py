"""The job's last word on disk: how it ended, for a core that went away before it could hear of it."""

from pathlib import Path

from worker_core.training.channel import Channel
from worker_core.training.files import write_whole
from worker_core.wire.codec import encode
from worker_core.wire.frames import LAST_WORD_FILE, Done, LastWord


def leave_last_word(workspace: Path, channel: Channel, done: Done, exit_code: int) -> None:
    """Write down how the job ends, with the files that the core has not acknowledged; call it before the last frame.

    A job that leaves because it was asked to has no last word: what counts of it is its checkpoint.
    """
    if done.outcome == "stopped":
        return
    word = LastWord(done=done, exit=exit_code, artifacts=channel.unheard_files())
    try:
        write_whole(workspace / LAST_WORD_FILE, encode(word))
    except OSError as error:
        # The frame that follows says the same to a core that is there.
        print(f"the job's end could not be written down: {error}", flush=True)  # noqa: T201
