"""What the core and its keystore child say to each other; apart from the child, so that the core loads no keyring."""

from typing import Literal

from worker_core.wire.codec import Message

Fault = Literal["locked", "none", "timeout", "denied", "failed"]
"""Why a store cannot be used: locked; there is none; no answer in time; refused; failed in another way."""


class KeystoreRequest(Message):
    """What to do with one entry."""

    do: Literal["load", "save", "delete"]
    service: str
    entry: str
    secret: str = ""


class KeystoreAnswer(Message):
    """The secret, when one was asked for and is there, or the fault."""

    secret: str | None = None
    fault: Fault | None = None
    detail: str = ""
