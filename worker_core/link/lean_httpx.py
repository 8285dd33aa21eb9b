"""httpx without its terminal program, which would bring rich and pygments into the core (a fifth of its memory)."""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx as httpx  # noqa: E402
