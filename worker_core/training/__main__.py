"""The job process: `python -I -m worker_core.training --workspace WS --frames-fd N --orders-fd M`."""

import argparse
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from worker_core.training.channel import Channel, open_descriptor
from worker_core.training.failures import LeaveNow, describe
from worker_core.training.files import JobFolder
from worker_core.training.last_word import leave_last_word
from worker_core.training.outlet import open_outlet
from worker_core.training.reporter import Reporter
from worker_core.training.session_log import SESSION_LOG, SessionLog
from worker_core.training.usage import UsageMeter
from worker_core.wire.events import Status
from worker_core.wire.frames import Done, JobError

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_CORE_GONE = 75
_FLUSH_S = 60.0

# Small networks lose by threads, and numpy reads this when it is imported. Larger ones set torch's threads themselves;
# those must sleep, not spin, while they wait: on a shared machine a spinning thread waits for one that has no core.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}


class _Arguments(argparse.Namespace):
    workspace: Path
    frames_fd: int
    orders_fd: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that lies in the workspace; returns the exit code."""
    asked = _parse(arguments)
    prepare_process()
    channel = Channel(open_descriptor(asked.frames_fd, write=True), open_descriptor(asked.orders_fd, write=False))
    signal.signal(signal.SIGTERM, lambda _signal, _frame: channel.leave_in(channel.grace_s))
    channel.send(Status(ts=time.time(), phase="starting"))
    usage = UsageMeter()
    folder = JobFolder(asked.workspace.resolve())
    try:
        _run(folder, channel, usage)
    except LeaveNow:
        return _end(folder, channel, Done(outcome="stopped", usage=usage.read()), EXIT_DONE)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The user's code may call sys.exit or raise what Ctrl-C raises; the core is told of that too.
        return _fail(folder, channel, describe(error, folder.root), usage)
    return _end(folder, channel, Done(outcome="succeeded", usage=usage.read()), EXIT_DONE)


def _parse(arguments: Sequence[str] | None) -> _Arguments:
    parser = argparse.ArgumentParser(prog="worker_core.training", description="Run one job; started by the core.")
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--frames-fd", type=int, required=True)
    parser.add_argument("--orders-fd", type=int, required=True)
    return parser.parse_args(arguments, namespace=_Arguments())


def prepare_process() -> None:
    """Set this process up for a job: threads, output, where a crash is told. Comes before numpy and torch."""
    faulthandler.enable()
    # The job's code is read-only and stays as it was sent.
    sys.dont_write_bytecode = True
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # What the user's code prints should be in the log when it is printed, not when a buffer is full.
    sys.stdout, sys.stderr = open_outlet(sys.stdout.fileno()), open_outlet(sys.stderr.fileno())


def _run(folder: JobFolder, channel: Channel, usage: UsageMeter) -> None:
    from worker_core.wire.plan import resolve

    spec, spec_sha256 = folder.read_spec()
    plan = resolve(spec)
    channel.grace_s = plan.grace_s
    channel.record_in(SessionLog(folder.results / SESSION_LOG, folder.read_identity()))
    # torch takes seconds to import; the core has heard "starting" by now.
    from worker_core.training.rl.session import RlSession

    reporter = Reporter(channel)
    reporter.watch_for_stalls(plan.health)
    try:
        RlSession(folder, plan, spec_sha256, reporter, usage).run()
    finally:
        reporter.close()


def _fail(folder: JobFolder, channel: Channel, error: JobError, usage: UsageMeter) -> int:
    print(error.traceback or error.message, file=sys.stderr)  # noqa: T201
    return _end(folder, channel, Done(outcome="failed", error=error, usage=usage.read()), EXIT_FAILED)


def _end(folder: JobFolder, channel: Channel, done: Done, code: int) -> int:
    """Say how the job ended and wait until the core has written it down."""
    leave_last_word(folder.root, channel, done, code)
    channel.send(done)
    channel.flush(_FLUSH_S)
    return EXIT_CORE_GONE if channel.gone else code


if __name__ == "__main__":
    sys.exit(main())
