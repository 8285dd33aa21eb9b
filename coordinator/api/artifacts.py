"""Artifacts on their way out to people: always as a download, never as a page of ours."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coordinator.api.auth import require_person
from coordinator.api.context import services_of
from coordinator.api.ranges import slice_for
from coordinator.queue.uploads import pieces


async def download(request: Request) -> Response:
    """Send an artifact, or a range of it."""
    person = await require_person(request)
    files = services_of(request).queue.artifacts
    artifact, path = await files.artifact_of(person.account_id, request.path_params["artifact"])
    part = slice_for(request.headers.get("range"), artifact.size)
    headers = {
        **part.headers,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(_file_name(artifact.name), safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "ETag": f'"{artifact.sha256}"',
    }
    return StreamingResponse(pieces(path, part.start, part.end), part.status, headers, "application/octet-stream")


def _file_name(name: str) -> str:
    """Return a name that stays one in the folder it is saved to."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip(". ")
    return last or "artifact"


routes = [Route("/v1/artifacts/{artifact}", download, methods=["GET"])]
