"""The console's addresses."""

from starlette.routing import BaseRoute, Route

from coordinator.console import gate, history, jobs, pairing, sessions, workers
from coordinator.console.assets import favicon, static_file
from coordinator.console.stream import stream

_WORKER = "/workers/{worker_id}"
_SESSION = "/sessions/{job_id}"

routes: list[BaseRoute] = [
    Route("/", gate.root),
    Route("/favicon.ico", favicon),
    Route("/static/{digest}/{path:path}", static_file),
    Route("/login", gate.log_in_page, methods=["GET"]),
    Route("/login", gate.log_in, methods=["POST"]),
    Route("/logout", gate.log_out, methods=["POST"]),
    Route("/theme", gate.choose_theme, methods=["POST"]),
    Route("/workers", workers.workers_page),
    *(Route(f"{_WORKER}/{action}", workers.confirm_page(action), methods=["GET"]) for action in workers.CONFIRMED),
    *(Route(f"{_WORKER}/{action}", workers.mode_form(action), methods=["POST"]) for action in workers.CHANGES),
    Route("/workers/confirm", workers.confirm_all, methods=["POST"]),
    Route(f"{_WORKER}/keep", workers.keep, methods=["POST"]),
    Route(f"{_WORKER}/renew", workers.renew, methods=["POST"]),
    Route(f"{_WORKER}/revoke", workers.revoke, methods=["POST"]),
    Route(f"{_WORKER}/remove", workers.remove, methods=["POST"]),
    Route("/history", history.history_page),
    Route("/pair", pairing.code_page, methods=["GET"]),
    Route("/pair", pairing.look_up, methods=["POST"]),
    Route("/pair/{pairing_id}/approve", pairing.approve, methods=["POST"]),
    Route("/pair/{pairing_id}/deny", pairing.deny, methods=["POST"]),
    Route("/jobs", jobs.jobs_page, methods=["GET"]),
    Route("/jobs", jobs.submit, methods=["POST"]),
    Route("/jobs/new", jobs.new_job_page),
    Route("/jobs/{job_id}", jobs.job_page),
    Route("/jobs/{job_id}/cancel", jobs.cancel, methods=["POST"]),
    Route("/jobs/{job_id}/retry", jobs.retry, methods=["POST"]),
    Route("/sessions", sessions.sessions_page),
    Route(_SESSION, sessions.charts_page),
    Route(f"{_SESSION}/series", sessions.series_data),
    Route(f"{_SESSION}/values", sessions.values_page),
    Route(f"{_SESSION}/logs", sessions.logs_page),
    Route(f"{_SESSION}/logs/after", sessions.log_after),
    Route(f"{_SESSION}/log.txt", sessions.download_log),
    Route(f"{_SESSION}/artifacts", sessions.artifacts_page),
    Route(f"{_SESSION}/benchmarks", sessions.benchmarks_page),
    Route(f"{_SESSION}/config", sessions.config_page),
    Route("/v1/stream", stream),
]
