"""Identifiers: a prefix that says what a thing is, then a UUIDv7 (RFC 9562) so that they sort by birth."""

import os
import time
from typing import Literal

Prefix = Literal["wrk", "job", "att", "ses", "art", "upl", "prg", "acc", "tok", "req", "ins"]
"""worker, job, attempt, session (connection), artifact, upload, pairing, account, API token, request, instance."""


def new_id(prefix: Prefix) -> str:
    """Return a fresh identifier such as ``job_0199…``."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64
    value |= 0b10 << 62 | random & (2**62 - 1)
    return f"{prefix}_{value:032x}"
