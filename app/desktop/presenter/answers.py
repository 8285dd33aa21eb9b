"""The questions of the desktop: their words and answers."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: what it is called in code, on its button, and what it means."""

    id: str
    text: str
    meaning: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question and its answers, the first of which is what Enter gives."""

    text: str
    answers: tuple[Answer, ...]


QUIT = Asked(
    text="“{job}” is running on this computer. What should happen to it?",
    answers=(
        Answer(
            id="keep",
            text="&Keep training",
            meaning="Stoker's window and icon go away, the worker goes on and takes jobs.",
        ),
        Answer(id="drain", text="&Drain, then quit", meaning="The worker finishes this job, then ends."),
        Answer(
            id="stop",
            text="&Stop now",
            meaning="The worker saves a checkpoint and ends; the job resumes elsewhere or later.",
        ),
    ),
)
REMEMBERED_QUIT = {
    "keep": "Quit keeps the worker training.",
    "drain": "Quit lets the worker finish its job, then ends it.",
    "stop": "Quit stops the job with a checkpoint.",
}
REMEMBERED_CLOSE = {
    "keep": "Closing this window keeps Stoker running.",
    "quit": "Closing this window quits Stoker.",
}
CLOSE = Asked(
    text="This desktop has no place for Stoker's icon. Without a window it keeps running unseen; "
    "start Stoker again to bring the window back.",
    answers=(Answer(id="keep", text="&Keep running"), Answer(id="quit", text="&Quit Stoker")),
)
UNPAIR = Asked(
    text="A running job ends with its last checkpoint, and the worker's key is removed from this computer. "
    "Pairing again needs a new code.",
    answers=(Answer(id="unpair", text="&Unpair"),),
)
UNPAIRED_HERE_ONLY = (
    "Unpaired on this computer only",
    "The key is gone from this computer, but the coordinator could not be told. Revoke this worker in its console.",
)
