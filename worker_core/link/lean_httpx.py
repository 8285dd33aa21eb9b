"""httpx without what it never needs here.

Its terminal program would bring rich and pygments into the core (a fifth of its memory). sniffio, which tells trio from
asyncio, is not installed; left to itself, httpcore would search the disk for it several times in each request.
"""

import sys

for _name in ("httpx._main", "sniffio"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]

import httpx as httpx  # noqa: E402
