"""`stoker pair` where no core runs: the same pairing, under the home's lock."""

import asyncio
from collections.abc import Callable

from worker_core.control.messages import PairArgs, PairOutcome
from worker_core.core.enrollment import read_enrollment
from worker_core.core.pairings import PairingDesk, PairingRefused
from worker_core.core.settings import BadSettings, read_settings
from worker_core.core.version import VERSION
from worker_core.core.wiping import erase
from worker_core.journal.journal import Journal
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.host import boot_id
from worker_core.machine.instance_lock import LockHeld, take_lock
from worker_core.machine.paths import Paths
from worker_core.machine.sources import find_sources
from worker_core.wire.status import PairingShown


class CoreRunning(Exception):
    """A core of this home runs; pairing is its business."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"a worker of this home runs already (process {pid or 'unknown'})")
        self.pid = pid


def pair_alone(paths: Paths, args: PairArgs, on_code: Callable[[PairingShown], None]) -> PairOutcome:
    """Pair and wait for the decision; raises :class:`CoreRunning`, JournalError or OSError.

    Ctrl-C takes the code back and goes on as KeyboardInterrupt.
    """
    private_folder(paths.data)
    try:
        lock = take_lock(paths.lock_file)
    except LockHeld as held:
        raise CoreRunning(held.pid) from held
    try:
        return asyncio.run(_pair(paths, args, on_code))
    finally:
        lock.release()


async def _pair(paths: Paths, args: PairArgs, on_code: Callable[[PairingShown], None]) -> PairOutcome:
    sources = find_sources()
    journal = Journal.open(paths.state_db, boot_id=boot_id(), wall=sources.clock.wall)
    try:
        enrolled = read_enrollment(journal)
        if enrolled is not None and enrolled.is_of_another(sources.computer()):
            await erase(paths, journal, None)
        elif enrolled is not None:
            text = f"this worker is paired with {enrolled.coordinator} already; `stoker unpair` ends that"
            return PairOutcome(state="failed", detail=text)
        try:
            desk = PairingDesk(paths, journal, sources, VERSION, route=read_settings(paths).route())
            pairing = await desk.begin(args)
        except (PairingRefused, BadSettings) as refused:
            return PairOutcome(state="failed", detail=str(refused))
        try:
            on_code(pairing.shown(sources.clock.now()))
            return await desk.await_decision(pairing)
        except BaseException:
            await desk.call_off(pairing)
            raise
    finally:
        await journal.close()
