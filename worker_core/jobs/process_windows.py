"""Starts a job process on Windows: its pipes are inherited handles, whose numbers it is told."""

import sys

if sys.platform == "win32":
    import msvcrt
    import os
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from worker_core.machine.spawn import spawn

    def start_with_pipes(
        command: Callable[[int, int], list[str]],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: tuple[int, int],
        inherit: Sequence[int] = (),
    ) -> tuple[subprocess.Popen[bytes], int, int]:
        """Start ``command(frames, orders)``, halted, and return the process and our ends of its frames and orders.

        ``inherit`` are further handles that it keeps. The containment lets it run.
        """
        frames_in, frames_out = os.pipe()
        orders_in, orders_out = os.pipe()
        handles = [msvcrt.get_osfhandle(frames_out), msvcrt.get_osfhandle(orders_in)]
        try:
            process = spawn(
                command(*handles),
                cwd=cwd,
                env=env,
                stdout=output[0],
                stderr=output[1],
                inherit=[*handles, *inherit],
                halted=True,
            )
        except BaseException:
            os.close(frames_in)
            os.close(orders_out)
            raise
        finally:
            os.close(frames_out)
            os.close(orders_in)
        return process, frames_in, orders_out
