"""Imported first: keeps OpenSSL out of the tray, which needs no more than Python's own SHA-256.

hashlib and hmac fall back to the algorithms built into Python where ``_hashlib`` cannot be imported; that spares
a program that rests in the tray for weeks 3 MiB of memory.
"""

import sys

if "_hashlib" not in sys.modules:
    sys.modules["_hashlib"] = None  # type: ignore[assignment]
