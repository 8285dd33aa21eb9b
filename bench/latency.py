"""How long a job waits for an idle worker: submit → accepted, and submit → first training step.

Both ends are seen from outside: the clock starts before the submission is sent and stops when the workstation's own
control channel shows the job (which it does after the acceptance is on its disk), or its first metric of training.
"""

import time
from collections.abc import Sequence

from bench._stack import Bench, BenchFailed, cartpole, milliseconds, paired_worker, parser, report
from worker_core.control.messages import MetricEvent, Snapshot
from worker_core.wire.vocabulary import JOB_END_STATES

LONGEST_S = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "")
    options.add_argument("--samples", type=int, default=30, help="jobs to submit")
    options.add_argument("--steps", type=int, default=5, help="jobs that are followed to their first training step")
    asked = options.parse_args(argv)
    with paired_worker() as bench:
        accepted = [_sample(bench, number, to_step=False) for number in range(asked.samples)]
        stepped = [_sample(bench, number, to_step=True) for number in range(asked.steps)]
    report({"bench": "submit-to-accepted", "samples": len(accepted), **milliseconds(accepted)}, json=asked.json)
    report({"bench": "submit-to-first-step", "samples": len(stepped), **milliseconds(stepped)}, json=asked.json)
    return 0


def _sample(bench: Bench, number: int, *, to_step: bool) -> float:
    bench.wait_idle()
    with bench.core.control() as control:
        events = control.snapshots(metrics=to_step)
        next(events)
        began = time.monotonic()
        job_id = bench.submit(cartpole(f"latency-{number}", 2_000))
        for event in events:
            if _reached(event, job_id, to_step=to_step):
                break
            _check_hope(bench, event, job_id, began)
        took = time.monotonic() - began
    bench.wait_job(job_id, lambda job: job.state in JOB_END_STATES)
    return took


def _check_hope(bench: Bench, event: Snapshot | MetricEvent, job_id: str, began: float) -> None:
    """Raise when what is waited for cannot come any more, or took too long; a silent core ends the wait by itself."""
    if isinstance(event, Snapshot) and event.status.job is None:
        bench.refuse_ended(bench.client.job(job_id))
    if time.monotonic() - began > LONGEST_S:
        raise BenchFailed(f"job {job_id} did not get so far within {LONGEST_S:.0f} s")


def _reached(event: Snapshot | MetricEvent, job_id: str, *, to_step: bool) -> bool:
    if isinstance(event, MetricEvent):
        return to_step and event.step > 0
    return not to_step and event.status.job is not None and event.status.job.id == job_id
