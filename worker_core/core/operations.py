"""What faces can ask of the core through the control channel."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from worker_core.control.messages import (
    MAX_BUCKETS,
    AttemptShown,
    EmbeddedArgs,
    EmbeddedReady,
    GiveBackArgs,
    GpusTested,
    GpuTested,
    History,
    HistoryArgs,
    ModeArgs,
    PairArgs,
    PairOutcome,
    QuitArgs,
    Request,
    Series,
)
from worker_core.control.server import ControlRefused
from worker_core.core.embedded import EmbeddedCoordinator, EmbeddedFailed
from worker_core.core.pairings import PairingRefused
from worker_core.core.settings import BadSettings
from worker_core.core.worker import Worker
from worker_core.journal.records import JournalError
from worker_core.journal.series import Buckets
from worker_core.wire.codec import BadMessage, Number, convert, number_to_wire
from worker_core.wire.failure_rules import cure_of
from worker_core.wire.owner_rules import OwnerRules
from worker_core.wire.status import PairingShown, WorkerStatus

T = TypeVar("T")
LONGEST_GIVE_BACK_S = 366 * 86400.0
_PAIRED = ("locked", "starting", "connected", "conflict")


class CoreOperations:
    """Does for a face what it asks for."""

    def __init__(self, worker: Worker, embedded: EmbeddedCoordinator) -> None:
        self._worker = worker
        self._embedded = embedded

    def status(self) -> WorkerStatus:
        """Return the whole truth now."""
        return self._worker.status()

    async def perform(self, request: Request) -> object:
        """Do one operation; raises :class:`ControlRefused`."""
        match request.op:
            case "status":
                return self.status()
            case "ping":
                return {}
            case "pair":
                return await self._pair(_read(request, PairArgs))
            case "pair-wait":
                return await self._await_decision()
            case "pair-cancel":
                self._worker.cancel_pairing()
                return {}
            case "unpair":
                return await self._unpair()
            case "mode":
                return await self._set_mode(_read(request, ModeArgs))
            case "give-back":
                return await self._give_back(_read(request, GiveBackArgs))
            case "rules":
                return self._worker.known.owner.rules
            case "set-rules":
                return await self._set_rules(_read(request, OwnerRules))
            case "quit":
                self._worker.leave(_read(request, QuitArgs).how)
                return {}
            case "history":
                return await self._history(_read(request, HistoryArgs))
            case "attempts":
                return {"attempts": await self._attempts()}
            case "retest-gpu":
                return await self._retest_gpus()
            case "coordinator-setup":
                return await self._set_up_coordinator(_read(request, EmbeddedArgs))

    async def _pair(self, args: PairArgs) -> PairingShown:
        known = self._worker.known
        if known.enrollment is not None:
            text = f"this worker is paired with {known.enrollment.coordinator} already; unpair first"
            raise ControlRefused("wrong-state", text)
        if known.life.standing == "pairing":
            raise ControlRefused("wrong-state", "a pairing is in progress; cancel it first")
        try:
            pairing = await self._worker.begin_pairing(args)
        except PairingRefused as refused:
            raise ControlRefused(refused.code, str(refused)) from refused
        return pairing.shown(known.clock.now())

    async def _await_decision(self) -> PairOutcome:
        decision = self._worker.decision()
        if decision is None:
            raise ControlRefused("wrong-state", "no pairing is in progress")
        return await asyncio.shield(decision)

    async def _unpair(self) -> dict[str, bool]:
        if self._worker.known.life.standing not in _PAIRED:
            raise ControlRefused("not-paired", "this worker is not paired")
        return {"revoked_on_coordinator": await self._worker.unpair()}

    async def _set_mode(self, args: ModeArgs) -> dict[str, str]:
        try:
            await self._worker.set_mode(args.mode, args.now)
        except JournalError as error:
            text = f"the mode is {args.mode} now, but a restart forgets it: {error}"
            raise ControlRefused("failed", text) from error
        return {"mode": args.mode}

    async def _give_back(self, args: GiveBackArgs) -> dict[str, str]:
        wall = self._worker.known.clock.wall()
        if args.until is not None and not wall < args.until <= wall + LONGEST_GIVE_BACK_S:
            raise ControlRefused(
                "bad-request", "until lies ahead, a year at most; leave it out to hold until you resume"
            )
        try:
            await self._worker.give_back(args.until)
        except JournalError as error:
            raise ControlRefused("failed", f"the GPU is yours, but a restart forgets it: {error}") from error
        return {}

    async def _set_rules(self, rules: OwnerRules) -> dict[str, str]:
        try:
            await self._worker.set_rules(rules)
        except (BadSettings, OSError) as error:
            raise ControlRefused("failed", f"the rules hold now, but a restart forgets them: {error}") from error
        return {}

    async def _history(self, args: HistoryArgs) -> History:
        buckets = max(1, min(args.max_buckets, MAX_BUCKETS))
        series = await self._worker.journal.history(args.attempt_id, args.names, buckets)
        return History(attempt_id=args.attempt_id, series={name: _series(found) for name, found in series.items()})

    async def _attempts(self) -> list[AttemptShown]:
        return [
            AttemptShown(
                attempt_id=attempt.attempt_id,
                job_id=attempt.job_id,
                job_name=attempt.job_name,
                attempt=attempt.attempt,
                started=attempt.started,
                names=attempt.names,
            )
            for attempt in await self._worker.journal.history_attempts()
        ]

    async def _retest_gpus(self) -> GpusTested:
        known = self._worker.known
        if known.life.slot != "free":
            raise ControlRefused("wrong-state", "a job is running; test the GPUs when it has ended")
        found = await known.gpu_care.retest()
        return GpusTested(
            gpus=tuple(
                GpuTested(
                    uuid=gpu.uuid, name=gpu.name, ok=result.ok, text=result.text, cure=cure_of(result.failure or "")
                )
                for gpu, result in found
            )
        )

    async def _set_up_coordinator(self, args: EmbeddedArgs) -> EmbeddedReady:
        try:
            url = await self._embedded.ready()
            await self._embedded.add_account(args.email, args.password)
        except EmbeddedFailed as failed:
            raise ControlRefused("failed", str(failed)) from failed
        self._worker.known.embedded_coordinator = True
        self._worker.changed()
        return EmbeddedReady(url=url)


def _read(request: Request, kind: type[T]) -> T:
    try:
        return convert(request.args, kind)
    except BadMessage as error:
        raise ControlRefused("bad-request", f"{request.op}: {error}") from error


def _series(buckets: Buckets) -> Series:
    return Series(
        steps=buckets.steps,
        lows=_numbers(buckets.lows),
        highs=_numbers(buckets.highs),
        last=_numbers(buckets.last),
        count=buckets.count,
    )


def _numbers(values: Iterable[float]) -> tuple[Number, ...]:
    return tuple(number_to_wire(value) for value in values)
