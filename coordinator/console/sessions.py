"""Training Sessions: the list, and one session's charts, log, artifacts, benchmarks and configuration."""

from collections.abc import AsyncIterator
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response, StreamingResponse

from coordinator.console.benchmarks import benchmark_rows
from coordinator.console.charts import grouped_plots, pinned_plots, series_for_browser, summary_words
from coordinator.console.doors import page
from coordinator.console.jobs import FILTERS, PAGE_LENGTH, filter_links, job_row
from coordinator.console.loglines import chunks, plain_line
from coordinator.console.pages import Visit, show
from coordinator.storage.metrics import Bucket, MetricHead
from worker_core.wire.client import JobView
from worker_core.wire.plan import plan_lines, resolve
from worker_core.wire.problems import problem
from worker_core.wire.spec import BadSpec, load_spec

LOG_LINES = 2000
CHART_BUCKETS = 600
MOST_BUCKETS = 2000
TABLE_ROWS = 200
TABS = (
    ("", "Charts"),
    ("logs", "Logs"),
    ("artifacts", "Artifacts"),
    ("benchmarks", "Benchmarks"),
    ("config", "Config"),
)


def _account(visit: Visit) -> str:
    return visit.person.account_id


def _job_id(visit: Visit) -> str:
    return visit.request.path_params["job_id"]


async def _job(visit: Visit) -> JobView:
    return await visit.services.queue.jobs.show(_account(visit), _job_id(visit))


async def _heads(visit: Visit) -> list[MetricHead]:
    return list(await visit.services.queue.jobs.metric_heads(_account(visit), _job_id(visit)))


def _show_tab(visit: Visit, tab: str, template: str, job: JobView, **context: object) -> Response:
    return show(visit, template, tab=tab, tabs=TABS, **job_row(job, visit.now), **context)


async def _list(visit: Visit) -> Response:
    query = visit.request.query_params
    state = query.get("state") if query.get("state") in FILTERS else None
    jobs = visit.services.queue.jobs
    account, after = _account(visit), query.get("after")
    listing = await jobs.list(account, state=state, begun=True, limit=PAGE_LENGTH, cursor=after)
    older = {"after": listing.next, **({"state": state} if state else {})} if listing.next else None
    return show(
        visit,
        "sessions.html",
        rows=[job_row(job, visit.now) for job in listing.items],
        links=filter_links(await jobs.counts(account, begun=True), state, "/sessions"),
        older=f"/sessions?{urlencode(older)}" if older else None,
        here=f"/sessions?{visit.request.url.query}" if visit.request.url.query else "/sessions",
    )


async def _charts(visit: Visit) -> Response:
    job, heads = await _job(visit), await _heads(visit)
    names = [head.name for head in heads]
    pinned = pinned_plots(names)
    return _show_tab(
        visit,
        "",
        "session_charts.html",
        job,
        pinned=pinned,
        groups=grouped_plots(names, pinned),
        summaries={head.name: summary_words(head) for head in heads},
        superseded=_wants_superseded(visit),
        has_superseded=await visit.services.queue.jobs.has_superseded(_account(visit), _job_id(visit)),
    )


def _asked_metric(visit: Visit) -> str:
    key = visit.request.query_params.get("key", "")
    if not 1 <= len(key) <= 200:
        raise problem("not-found", "There is no metric of that name.")
    return key


async def _series(visit: Visit) -> Response:
    key = _asked_metric(visit)
    asked = visit.request.query_params.get("buckets", "")
    buckets = (
        min(MOST_BUCKETS, max(10, int(asked)))
        if asked.isascii() and asked.isdecimal() and len(asked) < 6
        else CHART_BUCKETS
    )
    series = await visit.services.queue.jobs.series(_account(visit), _job_id(visit), key, buckets=buckets)
    head = next(iter(await visit.services.queue.jobs.metric_heads(_account(visit), _job_id(visit), key)), None)
    hidden = await _superseded(visit, key) if _wants_superseded(visit) else []
    body = msgspec.json.encode(series_for_browser(series, head, (await _job(visit)).flags, hidden))
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


def _wants_superseded(visit: Visit) -> bool:
    return visit.request.query_params.get("superseded") == "1"


async def _superseded(visit: Visit, key: str) -> list[Bucket]:
    return await visit.services.queue.jobs.superseded(_account(visit), _job_id(visit), key)


async def _values(visit: Visit) -> Response:
    key, job = _asked_metric(visit), await _job(visit)
    series = await visit.services.queue.jobs.series(_account(visit), _job_id(visit), key, buckets=TABLE_ROWS)
    return _show_tab(visit, "", "session_values.html", job, series=series)


async def _logs(visit: Visit) -> Response:
    before = visit.request.query_params.get("before")
    log = await visit.services.queue.jobs.log_tail(_account(visit), _job_id(visit), LOG_LINES, before=before)
    return _show_tab(
        visit, "logs", "session_logs.html", await _job(visit), chunks=chunks(log.items), log=log, before=before
    )


async def _log_after(visit: Visit) -> Response:
    after = visit.request.query_params.get("after") or None
    log = await visit.services.queue.jobs.log_after(_account(visit), _job_id(visit), after, limit=LOG_LINES)
    return show(visit, "log_lines.html", chunks=chunks(log.items), next=log.next)


async def _download_log(visit: Visit) -> Response:
    job = await _job(visit)
    headers = {"content-disposition": f'attachment; filename="{job.id}.log"', "x-content-type-options": "nosniff"}
    return StreamingResponse(_log_text(visit), media_type="text/plain; charset=utf-8", headers=headers)


async def _log_text(visit: Visit) -> AsyncIterator[str]:
    after: str | None = None
    while True:
        log = await visit.services.queue.jobs.log_after(_account(visit), _job_id(visit), after, limit=LOG_LINES)
        if not log.items:
            return
        after = log.next
        yield "".join(plain_line(line) for line in log.items)


async def _artifacts(visit: Visit) -> Response:
    artifacts = await visit.services.queue.jobs.artifacts(_account(visit), _job_id(visit))
    order = {"result": 0, "checkpoint": 1, "input": 2}
    listed = sorted(artifacts, key=lambda artifact: order[artifact.kind])
    return _show_tab(visit, "artifacts", "session_artifacts.html", await _job(visit), artifacts=listed)


async def _benchmarks(visit: Visit) -> Response:
    job, heads = await _job(visit), await _heads(visit)
    rows = benchmark_rows(heads)
    return _show_tab(visit, "benchmarks", "session_benchmarks.html", job, rows=rows, episodes=_episodes(job))


def _episodes(job: JobView) -> int | None:
    try:
        return load_spec(job.spec or "").benchmark.episodes_per_scenario
    except BadSpec:
        return None


async def _config(visit: Visit) -> Response:
    job = await _job(visit)
    text = job.spec or ""
    try:
        plan = plan_lines(resolve(load_spec(text)))
    except BadSpec as error:
        plan = [f"{wrong.field}: {wrong.message}" for wrong in error.errors]
    pretty = msgspec.json.format(text, indent=2)
    return _show_tab(visit, "config", "session_config.html", job, plan=plan, spec=pretty)


sessions_page = page(_list)
charts_page = page(_charts)
series_data = page(_series)
values_page = page(_values)
logs_page = page(_logs)
log_after = page(_log_after)
download_log = page(_download_log)
artifacts_page = page(_artifacts)
benchmarks_page = page(_benchmarks)
config_page = page(_config)
