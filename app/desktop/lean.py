"""Imported first: keeps out of the tray what it never uses, although the standard library would load it.

OpenSSL: hashlib and hmac fall back to the algorithms built into Python where ``_hashlib`` cannot be imported. bzip2 and
LZMA: shutil and zipfile, which Qt's bindings load, do without. That spares a program that rests for weeks 3 to 4 MiB.
"""

import sys

for _name in ("_hashlib", "_bz2", "_lzma"):
    if _name not in sys.modules:
        sys.modules[_name] = None  # type: ignore[assignment]
