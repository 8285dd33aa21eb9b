"""What a coordinator holds after a schedule, fetched through its public API: jobs, events, files."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from app.cli.client import CoordinatorClient
from app.cli.job_views import all_points
from worker_core.wire.client import ArtifactView, JobView, MetricPoint

_PAGE = 500
_MOST_PAGES = 400
_WROTE = re.compile(r"^wrote (\S+) ([0-9a-f]{64})$")


@dataclass
class JobEvidence:
    """One job as the coordinator holds it."""

    view: JobView
    events: dict[str, list[tuple[int, dict[str, Any]]]]
    """Per attempt, each event with its number."""
    points: list[MetricPoint]
    artifacts: list[ArtifactView]
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Artifact id to the hash of the bytes that were downloaded."""

    def told_hashes(self, attempt_id: str) -> dict[str, str]:
        """Return what the simulator said of the files it found on its disk: name to hash."""
        texts = (event.get("text", "") for _, event in self.events.get(attempt_id, []) if event.get("t") == "l")
        return {match[1]: match[2] for text in texts if (match := _WROTE.match(str(text)))}

    def metrics(self, attempt_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the metric events of an attempt."""
        return ((seq, event) for seq, event in self.events.get(attempt_id, []) if event.get("t") == "m")


def gather(url: str, token: str, client: CoordinatorClient, jobs: list[str]) -> list[JobEvidence]:
    """Fetch everything about these jobs."""
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
        return [_gather(http, client, job_id) for job_id in jobs]


def _gather(http: httpx.Client, client: CoordinatorClient, job_id: str) -> JobEvidence:
    view = client.job(job_id)
    events = {attempt.id: list(_events(http, attempt.id)) for attempt in view.attempts}
    made = JobEvidence(view, events, list(all_points(client, job_id)), client.artifacts(job_id))
    for artifact in made.artifacts:
        if artifact.state == "ready":
            answer = http.get(f"/v1/artifacts/{artifact.id}")
            made.digests[artifact.id] = hashlib.sha256(answer.content).hexdigest()
    return made


def _events(http: httpx.Client, attempt_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
    after = -1
    for _ in range(_MOST_PAGES):
        answer = http.get(f"/v1/attempts/{attempt_id}/events", params={"after_seq": after, "limit": _PAGE})
        answer.raise_for_status()
        items = answer.json()["items"]
        if not items:
            return
        yield from ((item["seq"], item["event"]) for item in items)
        after = items[-1]["seq"]
    raise AssertionError(f"attempt {attempt_id} has more than {_PAGE * _MOST_PAGES} events")
