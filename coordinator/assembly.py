"""Put a coordinator together from its parts, start what runs beside requests, and end it cleanly."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette

from coordinator.accounts.audit import Audit
from coordinator.accounts.ground import Ground
from coordinator.accounts.held_workers import HeldWorkers
from coordinator.accounts.housekeeping import forget_old_rows
from coordinator.accounts.key_changes import KeyChanges
from coordinator.accounts.keys import CoordinatorKeys
from coordinator.accounts.logins import Logins
from coordinator.accounts.pairings import Pairings
from coordinator.accounts.people import People
from coordinator.accounts.presence import Presence
from coordinator.accounts.proofs import Nonces, Proofs
from coordinator.accounts.rates import RateBook
from coordinator.accounts.restoring import Restoring
from coordinator.accounts.sessions import Sessions
from coordinator.accounts.workers import Workers
from coordinator.api import (
    admin,
    artifacts,
    audit,
    changes,
    jobs,
    meta,
    pairing,
    people,
    sessions,
    uploads,
    work,
    workers,
)
from coordinator.api.app import create_app
from coordinator.api.context import Services
from coordinator.clock import open_clock
from coordinator.console import pages
from coordinator.console import routes as console
from coordinator.queue.service import QueueService
from coordinator.rounds import every
from coordinator.settings import Settings
from coordinator.storage.data_folder import DataFolder
from coordinator.storage.database import Database
from coordinator.storage.generation import Generation

log = logging.getLogger(__name__)

HTTPS_PORT = 443
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def build_services(folder: DataFolder, settings: Settings, public_url: str) -> Services:
    """Open a data folder and return the services on it; :func:`running` brings them to life."""
    clock = open_clock(settings.clock_file)
    db = Database.open(folder.database)
    stamps = Generation.open(db, folder.path, clock.now())
    generation = stamps.number
    keys = CoordinatorKeys.load(folder.path)
    presence = Presence(db, clock, settings.worker.stale_s)
    queue = QueueService(
        db=db, settings=settings, clock=clock, keys=keys, generation=generation, presence=presence, data=folder.path
    )
    rates = RateBook(db, clock)
    people_ = People(db, clock, settings, rates)
    ground = Ground(db=db, clock=clock, settings=settings, keys=keys, generation=generation, work=queue)
    workers_ = Workers(ground, presence, folder.path)
    sessions_ = Sessions(ground, presence)
    queue.leases.on_repeated_beat = sessions_.beat_repeats
    origins = origins_of(public_url)
    return Services(
        settings=settings,
        clock=clock,
        db=db,
        keys=keys,
        generation=generation,
        data=folder.path,
        public_url=public_url,
        origins=frozenset(origins),
        people=people_,
        logins=Logins(db, clock, settings, people_),
        proofs=Proofs(Nonces(clock, settings.nonce_s), origins_with_path(public_url, origins)),
        pairings=Pairings(ground, workers_, public_url, rates),
        rates=rates,
        restoring=Restoring(ground, stamps, folder.path),
        sessions=sessions_,
        workers=workers_,
        held=HeldWorkers(ground, workers_),
        key_changes=KeyChanges(ground, folder.path),
        audit=Audit(db, clock),
        stamps=stamps,
        presence=presence,
        queue=queue,
        admin_key=secrets.token_urlsafe(32),
    )


def build_app(services: Services) -> Starlette:
    """Return the web application with the endpoints of every part."""
    modules = (meta, pairing, sessions, workers, people, admin, audit, work, uploads, jobs, artifacts, changes)
    routes = [route for module in modules for route in module.routes]
    return create_app(services, [*routes, *console.routes], pages.error_page)


@asynccontextmanager
async def running(services: Services) -> AsyncGenerator[None]:
    """Run what goes on beside requests; afterwards everything is written down and the database closed."""
    await services.presence.load()
    await services.rates.load()
    await services.restoring.run()
    await services.queue.on_start()
    settings = services.settings
    tasks = [
        asyncio.create_task(_run(services, job))
        for job in (
            *services.queue.tasks(),
            every(settings.presence_flush_s, services.presence.flush),
            every(settings.presence_flush_s, services.rates.flush),
            every(settings.housekeeping_s, lambda: _keep_house(services)),
        )
    ]
    try:
        yield
    finally:
        stop(services)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for last in (services.presence.flush, services.rates.flush, services.stamps.advance):
            try:
                await last()
            except Exception as error:
                # A full disk must not keep the rest from being closed; what is lost here is known again after a start.
                log.error("not written down at the end: %s", getattr(error, "orig", error))
        await asyncio.to_thread(services.db.close)


def stop(services: Services) -> None:
    """Begin the end: streams close and parked polls are answered, so that nothing keeps the server waiting."""
    if not services.stopping.is_set():
        services.stopping.set()
        services.queue.on_stop()


def origins_of(public_url: str) -> list[str]:
    """Return the origins that count as ours: on loopback each name of this machine, else the public one."""
    address = urlsplit(public_url)
    if address.scheme == "http":
        return [f"http://{name}:{address.port or 80}" for name in LOOPBACK_NAMES]
    # Browsers leave the usual port away; whoever typed the address may not have.
    host = address.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    port = address.port or HTTPS_PORT
    plain = [f"https://{shown}"] if port == HTTPS_PORT else []
    return [*plain, f"https://{shown}:{port}"]


def origins_with_path(public_url: str, origins: list[str]) -> list[str]:
    """Return the origins with the path under which a proxy shows us."""
    path = urlsplit(public_url).path.rstrip("/")
    return [origin + path for origin in origins]


async def _keep_house(services: Services) -> None:
    now = services.clock.now()
    await services.db.write(lambda conn: forget_old_rows(conn, services.settings, now))
    await services.rates.tidy()
    await services.stamps.advance()


async def _run(services: Services, job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except Exception:
        # Without one of its parts the coordinator would look alive and do nothing; a supervisor can start it anew.
        log.exception("a part of the coordinator failed; it stops")
        services.failed = True
        stop(services)
