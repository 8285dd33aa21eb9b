"""Training Workers: the cards, and the forms that drain, stop, resume, renew, revoke and remove one."""

from dataclasses import dataclass

from starlette.responses import Response

from coordinator.console.doors import Endpoint, Form, form, page
from coordinator.console.history import alerts
from coordinator.console.pages import Notice, Visit, go, show
from coordinator.console.pairing import chosen_length, lengths
from coordinator.console.words import by_attention
from worker_core.wire.client import WorkerView
from worker_core.wire.vocabulary import Mode

NEEDS_PERSON = {"problem", "expired"}


@dataclass(frozen=True)
class Change:
    """A change of mode that a button asks for."""

    mode: Mode
    done: str


CHANGES = {
    "drain": Change("drain", "{name} finishes its job and takes no new one."),
    "resume": Change("run", "{name} may take jobs again."),
    "stop": Change("stop", "{name} saves a checkpoint, ends its job and takes no new one."),
}
CONFIRMED = {"stop": "Stop", "keep": "Keep", "renew": "Renew", "revoke": "Revoke", "remove": "Remove"}


async def _list(visit: Visit) -> Response:
    workers = by_attention(await visit.services.workers.list(visit.person.account_id))
    attention = sum(worker.state in NEEDS_PERSON for worker in workers)
    return show(
        visit,
        "workers.html",
        workers=workers,
        attention=attention,
        public_url=visit.services.public_url,
        alerts=await alerts(visit),
        unconfirmed_workers=[worker.name for worker in workers if worker.confirm_needed],
    )


async def _worker(visit: Visit) -> WorkerView:
    return await visit.services.workers.get(visit.person.account_id, visit.request.path_params["worker_id"])


def _confirm(visit: Visit, worker: WorkerView, action: str, wrong: str = "") -> Response:
    return show(
        visit,
        "worker_confirm.html",
        422 if wrong else 200,
        worker=worker,
        action=action,
        word=CONFIRMED[action],
        wrong=wrong,
        lengths=lengths(visit.now),
    )


def confirm_page(action: str) -> Endpoint:
    """Make the page that says what an action does and asks for it."""

    async def handler(visit: Visit) -> Response:
        return _confirm(visit, await _worker(visit), action)

    return page(handler)


def mode_form(action: str) -> Endpoint:
    """Make the endpoint of a button that changes the wanted mode."""
    change = CHANGES[action]

    async def handler(visit: Visit, posted: Form) -> Response:
        worker = await visit.services.workers.set_mode(
            visit.person, visit.request.path_params["worker_id"], change.mode
        )
        return go("/workers", Notice("good", change.done.format(name=worker.name)))

    return form(handler)


async def _renew(visit: Visit, posted: Form) -> Response:
    worker_id = visit.request.path_params["worker_id"]
    worker = await visit.services.workers.renew(visit.person, worker_id, chosen_length(posted))
    return go("/workers", Notice("good", f"{worker.name} is authorized again."))


async def _keep(visit: Visit, posted: Form) -> Response:
    worker = await visit.services.held.keep(visit.person, visit.request.path_params["worker_id"])
    return go("/workers", Notice("good", f"{worker.name} stays. It changes its key; the other machine is shut out."))


async def _confirm_all(visit: Visit, posted: Form) -> Response:
    done = await visit.services.held.confirm(visit.person)
    said = f"{', '.join(done.confirmed)} may have jobs again." if done.confirmed else "No worker was waiting any more."
    return go("/workers", Notice("good", said))


async def _revoke(visit: Visit, posted: Form) -> Response:
    worker = await _worker(visit)
    if posted.text("confirm_name").strip() != worker.name:
        return _confirm(visit, worker, "revoke", f"That is not its name. Type {worker.name} to revoke it.")
    await visit.services.workers.revoke(visit.person, worker.id)
    return go("/workers", Notice("good", f"{worker.name} is revoked. Its credential no longer works."))


async def _remove(visit: Visit, posted: Form) -> Response:
    worker = await _worker(visit)
    await visit.services.workers.remove(visit.person, worker.id)
    return go("/workers", Notice("good", f"{worker.name} is removed."))


workers_page = page(_list)
renew = form(_renew, step_up=True)
keep = form(_keep, step_up=True)
confirm_all = form(_confirm_all, step_up=True)
revoke = form(_revoke)
remove = form(_remove)
