"""Runs one benchmark: ``python -m bench NAME [ARGUMENTS]``, as ``dev.py bench`` does.

However it ends, by a result, a failure, Ctrl-C or a request to end from outside, what it started has ended too, and
nobody reads a traceback unless STOKER_DEBUG=1 asks for it. The exit code is the benchmark's own: 1 for a missed
target or a failure, 130 when interrupted.
"""

import os
import signal
import sys
from importlib import import_module
from pathlib import Path

_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Run the benchmark that the first argument names."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if os.environ.get("STOKER_DEBUG", "") not in ("", "0"):
            raise
        sys.stderr.write(f"bench: {error or type(error).__name__} (STOKER_DEBUG=1 shows where)\n")
        return 1


def _run(arguments: list[str]) -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    if not arguments or arguments[0] not in known:
        sys.stderr.write(f"bench: name one of {', '.join(known)}\n")
        return 2
    sys.argv = [f"bench {arguments[0]}", *arguments[1:]]
    return int(import_module(f"bench.{arguments[0]}").main())


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
