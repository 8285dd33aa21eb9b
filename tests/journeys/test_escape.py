"""A job of a real worker looks for a way out, to the worker's key, its core and its coordinator: there is none."""

from tests.journeys.conftest import Stack
from tests.journeys.ways_out import MUST_BE_EMPTY, prying_spec, what_it_got


def test_a_job_that_tries_every_way_out_gets_nothing(stack: Stack) -> None:
    worker = stack.worker("box")
    status = worker.core.status()
    assert status is not None
    assert (status.containment.by, status.containment.network) == ("bubblewrap", False)
    secrets = [stack.token, stack.coordinator.url]
    job = stack.wait_end(stack.submit(prying_spec(worker.home, worker.core.pid, stack.coordinator.url, secrets)))
    assert job.state == "failed"  # it gives up once it has tried everything
    got = what_it_got([line.text for line in stack.client.logs(job.id).items])
    assert {name: got[name] for name in MUST_BE_EMPTY} == {name: [] for name in MUST_BE_EMPTY}
    assert (got["capabilities"], got["no_new_privileges"], got["interfaces"]) == ("0" * 16, "1", ["lo"])
    assert got["filtered"] == "2"
