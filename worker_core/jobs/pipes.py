"""Reads and writes a job's pipes from the event loop, on every system, with little memory however much a job says."""

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator

_CHUNK_BYTES = 64 * 1024
_CHUNKS_AHEAD = 8
_ORDERS_AHEAD = 4096


class PipeReader:
    """Reads a pipe to its end on a thread; the job waits when we do not keep up."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        self._abandoned = False
        threading.Thread(target=self._read, name=name, daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield what was read until every holder of the other end has closed it."""
        while data := await self._chunks.get():
            self._room.release()
            yield data

    def close(self) -> None:
        """Read on and throw away, so that a process that holds the other end does not hang in a write."""
        self._abandoned = True
        self._room.release()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, _CHUNK_BYTES)
            except OSError:
                data = b""
            if not self._abandoned:
                self._room.acquire()
                try:
                    self._loop.call_soon_threadsafe(self._chunks.put_nowait, b"" if self._abandoned else data)
                except RuntimeError:
                    break  # the loop is closed, nobody listens any more
            if not data:
                break
        os.close(self._descriptor)


class PipeWriter:
    """Writes to a pipe on a thread, so that a job that does not read cannot make us wait."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._messages: queue.Queue[bytes] = queue.Queue(_ORDERS_AHEAD)
        threading.Thread(target=self._write, name=name, daemon=True).start()

    def send(self, data: bytes) -> bool:
        """Hand a message over; False when the job has not read for so long that there is no room."""
        try:
            self._messages.put_nowait(data)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """Close the pipe after what was sent; with a full queue the reader's death ends the thread."""
        self.send(b"")

    def _write(self) -> None:
        view = memoryview(b"")
        try:
            while message := self._messages.get():
                view = memoryview(message)
                while view:
                    view = view[os.write(self._descriptor, view) :]
        except OSError:
            pass  # the job is gone; its exit is what counts
        finally:
            os.close(self._descriptor)
