"""`stoker run`: the core in the foreground, one per home."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from worker_core.control.messages import MetricEvent
from worker_core.control.server import ControlServer
from worker_core.core.embedded import EmbeddedCoordinator
from worker_core.core.end_signals import EndSignals
from worker_core.core.errand import Errand
from worker_core.core.logs import close_logs, open_logs
from worker_core.core.opening import open_when_possible
from worker_core.core.operations import CoreOperations
from worker_core.core.power_duty import PowerDuty
from worker_core.core.rounds import Rounds
from worker_core.core.settings import BadSettings, Settings, read_settings, write_settings
from worker_core.core.version import VERSION
from worker_core.core.worker import Worker
from worker_core.journal.journal import Journal
from worker_core.journal.records import JournalError
from worker_core.link.backoff import keep_going
from worker_core.machine.adoption import adopt_orphans
from worker_core.machine.atomic_files import private_folder
from worker_core.machine.host import boot_id
from worker_core.machine.instance_lock import LockHeld, take_lock
from worker_core.machine.known_secrets import learn_environment, learn_url
from worker_core.machine.paths import Paths, find_paths
from worker_core.machine.redaction import KNOWN_SECRETS
from worker_core.machine.sources import find_sources
from worker_core.wire.events import Metric

log = logging.getLogger(__name__)

EXIT_FAILED, EXIT_NOT_PAIRED, EXIT_RUNS_ALREADY, EXIT_INTERRUPTED = 1, 3, 4, 130
_PUBLISH_EVERY_S = 0.1
_ELSEWHERE = "or choose another home with STOKER_HOME"


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    once: bool
    started_by: str
    verbose: bool


def main(argv: Sequence[str]) -> int:
    """Run the core and return the exit code of `stoker run`."""
    options = _parse(argv)
    paths = find_paths()
    try:
        private_folder(paths.data)
        lock = take_lock(paths.lock_file)
    except LockHeld as held:
        who = f"process {held.pid}" if held.pid else "another process"
        print(f"stoker: a worker of this home runs already ({who})", file=sys.stderr)  # noqa: T201
        return EXIT_RUNS_ALREADY
    except PermissionError as error:
        return _fail(f"no permission to write this worker's home ({error}). Correct its owner and rights, {_ELSEWHERE}")
    except OSError as error:
        return _fail(f"this worker's home cannot be used: {error}. Correct that, {_ELSEWHERE}")
    try:
        settings = read_settings(paths)
        learn_environment(os.environ, settings.secret_env)
        learn_url(settings.proxy)
        open_logs(paths, settings.log_level, options.verbose)
        return asyncio.run(_run(paths, settings, options))
    except (BadSettings, JournalError) as error:
        return _fail(str(error))
    except Exception as error:
        if options.verbose:
            log.exception("the worker failed")
        return _fail(_describe(error))
    finally:
        close_logs()
        lock.release()


async def _run(paths: Paths, settings: Settings, options: Options) -> int:
    """Wire everything up, run until the worker has left, take everything down in reverse."""
    sources = find_sources()
    journal = await open_when_possible(lambda: Journal.open(paths.state_db, boot_id=boot_id(), wall=sources.clock.wall))
    worker = Worker(paths, journal, sources, settings, options.started_by, options.once)
    if options.once and worker.known.enrollment is None:
        await journal.close()
        print("stoker: this worker is not paired; pair it with `stoker pair`", file=sys.stderr)  # noqa: T201
        return EXIT_NOT_PAIRED
    embedded = _make_embedded(paths, settings)
    server = ControlServer(paths, CoreOperations(worker, embedded), VERSION)
    rounds = Rounds(worker, paths, settings)
    signals, power = EndSignals(worker), PowerDuty(worker, sources.power)
    adopt_orphans()
    loops = [
        asyncio.create_task(keep_going(worker.known.machine.safety.watch, "looking for a sandbox")),
        asyncio.create_task(keep_going(power.serve, "watching for sleep")),
        asyncio.create_task(keep_going(rounds.tick_for_ever, "the rounds")),
        asyncio.create_task(keep_going(lambda: _publish(worker, server, rounds), "telling the faces")),
    ]
    errand = Errand(worker)
    if options.once:
        loops.append(asyncio.create_task(errand.watch()))
    with signals.listening():
        try:
            await server.start()
            await worker.known.machine.safety.look()
            _start_embedded(worker, embedded, settings)
            worker.start()
            log.info("%s", _greeting(worker))
            await worker.left.wait()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await server.stop()
            await embedded.stop()
            await _close(journal)
    if errand.why_not:
        return EXIT_NOT_PAIRED
    return EXIT_INTERRUPTED if signals.interrupted else 0


async def _close(journal: Journal) -> None:
    """Close the journal; a disk that takes no more is no failure of a worker that was told to leave."""
    try:
        await journal.close()
    except JournalError as error:
        log.warning("what still waited to be written down is not: %s", error)


async def _publish(worker: Worker, server: ControlServer, rounds: Rounds) -> None:
    """Send the status to the faces when it changed, at most ten times a second."""
    changed = asyncio.Event()
    worker.watchers[:] = [changed.set]
    worker.metric_watchers[:] = [lambda attempt_id, metric: server.publish_metric(_point(attempt_id, metric))]
    while True:
        await changed.wait()
        changed.clear()
        rounds.watched = server.watched
        server.publish()
        await asyncio.sleep(_PUBLISH_EVERY_S)


def _point(attempt_id: str, metric: Metric) -> MetricEvent:
    return MetricEvent(attempt_id=attempt_id, step=metric.step, ts=metric.ts, values=metric.values)


def _make_embedded(paths: Paths, settings: Settings) -> EmbeddedCoordinator:
    def remember(port: int, account: str) -> None:
        known = {"embedded_coordinator": True, "embedded_port": port, "embedded_account": account}
        try:
            write_settings(paths, msgspec.structs.replace(read_settings(paths), **known))
        except (BadSettings, OSError) as error:
            log.warning("the port of the coordinator on this computer could not be kept: %s", error)

    return EmbeddedCoordinator(paths.coordinator, settings.embedded_port, settings.embedded_account, remember)


def _start_embedded(worker: Worker, embedded: EmbeddedCoordinator, settings: Settings) -> None:
    worker.known.embedded_coordinator = settings.embedded_coordinator
    if settings.embedded_coordinator:
        embedded.start()


def _greeting(worker: Worker) -> str:
    enrollment = worker.known.enrollment
    if enrollment is None:
        return "not paired; pair with `stoker pair --coordinator URL --email YOU` or in the desktop app"
    return f"worker {enrollment.worker_name} of {enrollment.account}, coordinator {enrollment.coordinator}"


def _parse(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="stoker run", description="Run the worker of this home in the foreground.")
    parser.add_argument(
        "--once",
        action="store_true",
        help="leave after one job; exit code 3 when none can come, because the worker is not accepted any more",
    )
    parser.add_argument(
        "--started-by",
        choices=("desktop", "service", "terminal"),
        default="terminal",
        help="what starts it; shown in the status",
    )
    parser.add_argument("--verbose", action="store_true", help="say more, with tracebacks")
    options = parser.parse_args(argv)
    verbose = options.verbose or os.environ.get("STOKER_DEBUG") == "1"
    return Options(options.once, options.started_by, verbose)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the worker cannot start: {error}"
    return f"the worker failed: {type(error).__name__}: {error} (STOKER_DEBUG=1 shows where)"


def _fail(text: str) -> int:
    print(KNOWN_SECRETS.redact(f"stoker: {text}"), file=sys.stderr)  # noqa: T201
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
