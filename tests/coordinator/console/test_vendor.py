"""Third-party browser files are the ones their manifest names, byte for byte."""

import hashlib
import json
from pathlib import Path

import pytest

from coordinator.console.assets import ASSETS, ROOT, asset_url

VENDOR = ROOT / "vendor"
MANIFEST = json.loads((VENDOR / "VENDOR.json").read_text())
FILES = [(name, digest) for package in MANIFEST for name, digest in package["files"].items()]


@pytest.mark.parametrize(("name", "digest"), FILES)
def test_a_vendored_file_has_the_digest_of_the_manifest(name: str, digest: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest


def test_nothing_is_vendored_without_a_line_in_the_manifest() -> None:
    known = {name for name, _ in FILES} | {"VENDOR.json"}
    assert {path.name for path in VENDOR.iterdir()} == known


def test_every_vendored_package_carries_its_licence() -> None:
    for package in MANIFEST:
        assert package["license"] in ("MIT", "0BSD")
        assert any(name.endswith("LICENSE.txt") for name in package["files"])


def test_no_page_or_style_names_another_site() -> None:
    for folder in (ROOT, ROOT.parent / "templates"):
        for path in folder.glob("*.*"):
            text = path.read_text().replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text, path
            assert "https://" not in text, path


def test_our_own_browser_files_stay_small() -> None:
    own = sum(len(asset.body) for asset in ASSETS.values() if "/" not in asset.name)
    assert own < 60_000


def test_no_template_has_inline_script_or_style() -> None:
    templates: Path = ROOT.parent / "templates"
    for path in templates.glob("*.html"):
        text = path.read_text()
        for inline in ("<style", " style=", " onclick=", "javascript:", "hx-on", "<script>"):
            assert inline not in text, (path.name, inline)


def test_an_address_of_a_static_file_changes_with_its_bytes() -> None:
    asset = ASSETS["live.js"]
    assert asset.digest in asset_url("live.js")
    assert asset.digest == hashlib.sha256(asset.body).hexdigest()[:16]
