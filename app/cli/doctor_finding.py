"""What `stoker doctor` finds: one precondition, how it stands, and the cure."""

from typing import Literal

from worker_core.wire.codec import Message

State = Literal["ok", "warning", "problem"]


class Finding(Message):
    """One precondition: how it stands, in words, and what to do about it."""

    name: str
    state: State
    text: str
    cure: str = ""
