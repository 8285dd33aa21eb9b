"""How a benchmark with one set of figures tells them."""

import json
from collections.abc import Mapping
from typing import Any


def tell(figures: Mapping[str, Any], *, as_json: bool) -> int:
    """Print the figures and return the exit code that ``within_targets`` stands for."""
    if as_json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value}")
    return 0 if figures["within_targets"] else 1
