"""How this very installation is called in the terminal the person sits at."""

import shutil
import sys
from pathlib import Path


def typed_as(name: str = "stoker") -> str:
    """Return what a person types here to start us: the plain name where the search path finds it, else a path."""
    beside = Path(sys.executable).with_name(name + Path(sys.executable).suffix)
    found = shutil.which(name)
    if not beside.exists() or (found is not None and Path(found).resolve() == beside.resolve()):
        return name
    here = Path.cwd()
    return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)
