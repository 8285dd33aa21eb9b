"""Who is at the other end of a local socket, as the kernel says it."""

import socket
import struct
import sys
from typing import Any

_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1
_XUCRED_BYTES = 76
"""macOS: version, uid, a count, 16 groups; see <sys/ucred.h>."""


def peer_uid(line: Any) -> int | None:
    """Return the user id of the process that connected to a Unix socket; None where the kernel does not tell."""
    if line.family != getattr(socket, "AF_UNIX", None):
        return None
    try:
        if sys.platform == "linux":
            facts = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return struct.unpack("3i", facts)[1]
        if sys.platform == "darwin":
            facts = line.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
            return struct.unpack_from("=II", facts)[1]
    except OSError:
        return None  # it has gone already, which macOS says this way
    return None
