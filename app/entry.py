"""The `stoker` command: sends each start to its part, so that the core and the desktop load no terminal library."""

import sys

EXIT_INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process and return its exit code; Ctrl-C ends it quietly, also while it loads."""
    try:
        return _run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run() -> int:
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "run":
        from worker_core.core.__main__ import main as run_core

        return run_core(sys.argv[2:])
    if command == "app":
        from app.desktop.__main__ import main as run_desktop

        return run_desktop(sys.argv[2:])
    if command == "keystore-child":  # how an installed app starts the child that may have to wait for a keystore
        from worker_core.machine.keystore_child import main as run_keystore_child

        return run_keystore_child()
    from app.cli.commands import main as run_cli

    return run_cli(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
