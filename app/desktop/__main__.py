"""`stoker app`: the desktop. Checks what it needs before Qt is loaded, because Qt's own words help nobody."""

import sys
from collections.abc import Sequence

import app.desktop.lean  # noqa: F401  # pyright: ignore[reportUnusedImport]
from app.desktop.display import missing_display
from worker_core.machine.paths import Paths, find_paths

BACKGROUND = "--background"
DONE, FAILED, NO_DISPLAY, ANOTHER_RUNS = 0, 1, 3, 4


def main(argv: Sequence[str]) -> int:
    """Run the desktop and return its exit code."""
    background = _wants_background(argv)
    if reason := missing_display():
        return _refuse(reason, NO_DISPLAY)
    paths = find_paths()
    try:
        for folder in (paths.data, paths.config, paths.logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        return _refuse(f"Stoker cannot use its folder {error.filename}: {error.strerror}. Set STOKER_HOME.", FAILED)
    try:
        import PySide6.QtWidgets  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        return _refuse(f"The desktop's libraries are missing ({error}). Run: pip install 'stoker[desktop]'", FAILED)
    return _run(paths, background=background)


def _wants_background(argv: Sequence[str]) -> bool:
    """Read the command line; anything but the two usual forms is explained by argparse, which a tray need not carry."""
    if list(argv) in ([], [BACKGROUND]):
        return bool(argv)
    import argparse

    parser = argparse.ArgumentParser(prog="stoker app", description="Show Stoker in the tray and its windows.")
    parser.add_argument(BACKGROUND, action="store_true", help="open no window when there is a tray")
    return bool(parser.parse_args(list(argv)).background)


def _run(paths: Paths, *, background: bool) -> int:
    from PySide6.QtWidgets import QApplication

    from app.desktop.application import run
    from app.desktop.crash import start_log
    from app.desktop.identity import claim_identity
    from app.desktop.single_instance import AlreadyRunning, SingleInstance

    try:
        start_log(paths.logs)
    except OSError as error:
        return _refuse(f"Stoker cannot write its log {error.filename}: {error.strerror}.", FAILED)
    claim_identity()
    app = QApplication(["stoker"])
    try:
        instance = SingleInstance(app, paths, wants_window=not background)
    except AlreadyRunning as other:
        if other.raised:
            return DONE
        return _refuse(f"Another Stoker runs (process {other.pid}) but does not answer. End it first.", ANOTHER_RUNS)
    return run(app, paths, instance, background=background)


def _refuse(reason: str, code: int) -> int:
    # A windowed program may have no stderr.
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr.write(f"stoker app: {reason}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
