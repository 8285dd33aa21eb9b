"""Waits for a child process from a coroutine, the same way on every system and event loop."""

import asyncio
import subprocess
import threading


async def wait_exit(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of ``process``; negative is the signal that ended it. Cancelling leaves it running."""
    if process.returncode is not None:
        return process.returncode
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def settle(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    def wait() -> None:
        code = process.wait()
        # The loop may have closed while the child lived on.
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, code)

    threading.Thread(target=wait, name=f"exit of {process.pid}", daemon=True).start()
    return await ended


def bury(process: subprocess.Popen[bytes]) -> None:
    """Take the exit code of a child for which nobody waits any more, whenever it ends."""
    if process.returncode is None:
        threading.Thread(target=process.wait, name=f"exit of {process.pid}", daemon=True).start()
