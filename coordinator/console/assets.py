"""Static files, served under the digest of their bytes so that a browser may keep them for ever."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

ROOT = Path(__file__).parent / "static"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
KEEP = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """One file of the static folder."""

    name: str
    body: bytes
    content_type: str
    digest: str


def load_assets(root: Path) -> dict[str, Asset]:
    """Read every servable file below ``root``; names are relative and use forward slashes."""
    assets: dict[str, Asset] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix in TYPES:
            body = path.read_bytes()
            name = path.relative_to(root).as_posix()
            assets[name] = Asset(name, body, TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])
    return assets


ASSETS = load_assets(ROOT)
BUILD = hashlib.sha256("".join(asset.digest for asset in ASSETS.values()).encode()).hexdigest()[:16]
"""Changes with any static file; an open page compares it after a reconnect."""


def asset_url(name: str) -> str:
    """Return the address of a static file; a name that does not exist is a programming error."""
    return f"/static/{ASSETS[name].digest}/{name}"


async def static_file(request: Request) -> Response:
    """Serve a static file; an address with an old digest is gone, never answered with other bytes."""
    asset = ASSETS.get(request.path_params["path"])
    if asset is None or asset.digest != request.path_params["digest"]:
        return PlainTextResponse("There is no such file.", status_code=404)
    return Response(asset.body, headers={"content-type": asset.content_type, "cache-control": KEEP})


async def favicon(request: Request) -> Response:
    """Serve the icon that browsers ask for by themselves."""
    icon = ASSETS["favicon.svg"]
    return Response(icon.body, headers={"content-type": icon.content_type, "cache-control": "public, max-age=86400"})
