"""Artifacts and inputs on their way in (W6, W7, W9; POST /v1/blobs): workers and people upload alike."""

import base64
import binascii
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coordinator.api.auth import require_person, require_worker
from coordinator.api.bodies import answer, no_content, read_bytes, read_message
from coordinator.api.context import services_of
from coordinator.queue.uploads import Uploader
from worker_core.wire.client import BlobRequest
from worker_core.wire.problems import problem
from worker_core.wire.work import (
    DIGEST_HEADER,
    OFFSET_HEADER,
    ArtifactAnswer,
    ArtifactRequest,
    UploadFinish,
    UploadFinished,
)

_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/=]+):")


async def announce(request: Request) -> Response:
    """W6: register an artifact of an attempt."""
    caller = await require_worker(request)
    body = await read_message(request, ArtifactRequest)
    files = services_of(request).queue.artifacts
    return _announced(await files.announce(caller, request.path_params["attempt"], body))


async def announce_input(request: Request) -> Response:
    """Register an input for jobs to come."""
    person = await require_person(request)
    body = await read_message(request, BlobRequest)
    return _announced(await services_of(request).queue.artifacts.announce_input(person.account_id, body))


async def head(request: Request) -> Response:
    """W7: say where an upload stands."""
    uploader = await _uploader(request)
    upload = await services_of(request).queue.artifacts.find(uploader, request.path_params["upload"])
    return Response(status_code=204, headers={OFFSET_HEADER: str(upload.offset)})


async def patch(request: Request) -> Response:
    """W7: take one chunk."""
    uploader = await _uploader(request)
    services = services_of(request)
    offset, digest = _read_offset(request), _read_digest(request)
    chunk = await read_bytes(request, services.settings.chunk_bytes)
    moved = await services.queue.artifacts.write_chunk(uploader, request.path_params["upload"], offset, chunk, digest)
    return no_content({OFFSET_HEADER: str(moved)})


async def finish(request: Request) -> Response:
    """W9: hash the whole and make it visible."""
    uploader = await _uploader(request)
    body = await read_message(request, UploadFinish)
    upload_id = request.path_params["upload"]
    await services_of(request).queue.artifacts.finish(uploader, upload_id, body.sha256, body.size)
    return answer(UploadFinished(sha256=body.sha256, size=body.size))


def _announced(found: ArtifactAnswer) -> Response:
    return answer(found, 200 if found.exists else 201)


async def _uploader(request: Request) -> Uploader:
    if request.headers.get("authorization", "").lower().startswith("dpop "):
        caller = await require_worker(request)
        return Uploader(caller.account_id, caller.worker_id, caller.session_id)
    person = await require_person(request)
    return Uploader(person.account_id)


def _read_offset(request: Request) -> int:
    text = request.headers.get(OFFSET_HEADER, "")
    if not text.isdecimal() or len(text) > 18:
        raise problem("invalid-request", f"send {OFFSET_HEADER} with the position of the chunk's first byte")
    return int(text)


def _read_digest(request: Request) -> bytes:
    match = _DIGEST.search(request.headers.get(DIGEST_HEADER, ""))
    try:
        digest = base64.b64decode(match.group(1), validate=True) if match else b""
    except binascii.Error:
        digest = b""
    if len(digest) != 32:
        raise problem("invalid-request", f"send {DIGEST_HEADER}: sha-256=:<base64 of the chunk's sha256>:")
    return digest


routes = [
    Route("/v1/attempts/{attempt}/artifacts", announce, methods=["POST"]),
    Route("/v1/blobs", announce_input, methods=["POST"]),
    Route("/v1/uploads/{upload}", head, methods=["HEAD"]),
    Route("/v1/uploads/{upload}", patch, methods=["PATCH"]),
    Route("/v1/uploads/{upload}/finish", finish, methods=["POST"]),
]
