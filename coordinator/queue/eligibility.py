"""Which worker may run which job: pure rules over what a worker is and what a job asks for."""

import json
from collections.abc import Collection
from typing import cast

import msgspec

from coordinator.storage.database import AnyRow
from worker_core.wire.codec import BadMessage, decode
from worker_core.wire.pairing import Gpu, Host
from worker_core.wire.spec import JobSpec, Target

GIB = 1 << 30


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a worker can run a job, apart from whether it may right now."""

    id: str
    name: str
    scopes: frozenset[str]
    kinds: frozenset[str]
    labels: frozenset[str]
    ram_gb: float
    gpus: tuple[Gpu, ...]
    held_gpus: int = 0
    """GPUs that it has and gives to no job now."""
    network: bool = False
    """Whether its owner lets jobs use the network."""


class Needs(Target, frozen=True):
    """Everything a job asks of a worker: its target, and what else of the spec not every worker gives."""

    network: bool = False
    unfit_gpus: tuple[str, ...] = ()
    """Models of GPU that it turned out not to run on."""


def needs_of(spec: JobSpec) -> Needs:
    """Return what a job asks of a worker."""
    target = {name: getattr(spec.target, name) for name in Target.__struct_fields__}
    return Needs(**target, network=spec.network == "any")


def facts_of(row: AnyRow) -> WorkerFacts:
    """Read the facts from a row of the worker table."""
    capabilities = cast("dict[str, object]", json.loads(row.capabilities))
    host = _host(row.host)
    return WorkerFacts(
        id=row.id,
        name=row.name,
        scopes=frozenset(cast("list[str]", json.loads(row.job_scopes))),
        kinds=_words(capabilities.get("kinds")),
        labels=_words(capabilities.get("labels")),
        ram_gb=host.ram_gb if host else 0.0,
        gpus=host.gpus if host else (),
        network=capabilities.get("network") is True,
    )


def without_gpus(facts: WorkerFacts, held: Collection[str]) -> WorkerFacts:
    """Return the facts of a worker that holds these GPUs back, by UUID."""
    free = tuple(gpu for gpu in facts.gpus if gpu.uuid not in held)
    return msgspec.structs.replace(facts, gpus=free, held_gpus=len(facts.gpus) - len(free))


def unfit(facts: WorkerFacts, kind: str, target: Needs) -> str | None:
    """Return in words why a worker cannot run such a job, or None when it can."""
    usable = [gpu for gpu in facts.gpus if gpu.name not in target.unfit_gpus]
    fitting = sum(gpu.memory_bytes >= target.gpu.min_vram_gb * GIB for gpu in usable)
    unsupported = bool(facts.gpus) and not usable
    checks = (
        (target.worker in ("any", facts.id, facts.name), f"is not {target.worker}"),
        (bool({"any", kind} & facts.scopes), f"may not take {kind} jobs"),
        (kind in facts.kinds, f"cannot run {kind} jobs"),
        (facts.labels >= set(target.labels), f"lacks a label of {', '.join(target.labels)}"),
        (facts.ram_gb >= target.min_ram_gb, f"has less than {target.min_ram_gb:g} GiB of memory"),
        (not unsupported, f"has only GPUs that this job does not run on ({', '.join(target.unfit_gpus)})"),
        (fitting >= target.gpu.count, _missing_gpus(facts, target)),
        (facts.network or not target.network, "does not let jobs use the network"),
    )
    return next((words for fits, words in checks if not fits), None)


def _missing_gpus(facts: WorkerFacts, target: Target) -> str:
    count = "a GPU" if target.gpu.count == 1 else f"{target.gpu.count} GPUs"
    size = f" with {target.gpu.min_vram_gb:g} GiB" if target.gpu.min_vram_gb else ""
    held = " (its own is held back; it shows why)" if facts.held_gpus else ""
    return f"lacks {count}{size}{held}"


def _words(value: object) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    return frozenset(word for word in cast("list[object]", value) if isinstance(word, str))


def _host(text: str) -> Host | None:
    try:
        return decode(text, Host)
    except BadMessage:
        # An older version's description: such a worker only takes jobs that ask for nothing.
        return None
