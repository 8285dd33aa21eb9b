"""A job that looks for a way out: files, sockets, ports, other processes, secrets, system calls.

Target: it gets nothing, else the exit code is 1.
"""

import sys
from collections.abc import Sequence

from bench._stack import paired_worker, parser, report_against
from tests.journeys.ways_out import MUST_BE_EMPTY, prying_spec, what_it_got
from worker_core.wire.vocabulary import JOB_END_STATES


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    asked = parser(__doc__ or "").parse_args(argv)
    with paired_worker() as bench:
        demo, coordinator = bench.demo, bench.demo.coordinator
        assert coordinator is not None
        status = bench.core.status()
        spec = prying_spec(demo.home / "worker", bench.core.pid, coordinator.url, [demo.password, coordinator.url])
        job_id = bench.submit(spec)
        bench.wait_job(job_id, lambda job: job.state in JOB_END_STATES)
        got = what_it_got([line.text for line in bench.client.logs(job_id).items])
    figures: dict[str, object] = {
        "bench": "escape",
        "contained_by": status.containment.by if status else "",
        **{name: len(got[name]) for name in MUST_BE_EMPTY},
    }
    return 0 if report_against(dict.fromkeys(MUST_BE_EMPTY, 0), figures, json=asked.json) else 1


if __name__ == "__main__":
    sys.exit(main())
