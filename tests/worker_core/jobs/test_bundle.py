"""Unpacking code from elsewhere: what is plain comes out unchanged, everything else is refused."""

import gzip
import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.jobs.bundle import BadBundle, unpack_bundle


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def entry(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


def unpack(tmp_path: Path, data: bytes, **limits: int) -> Path:
    archive = tmp_path / "code.tar.gz"
    archive.write_bytes(data)
    unpack_bundle(archive, tmp_path / "code", **limits)
    return tmp_path / "code"


def test_plain_files_and_folders_come_out_read_only(tmp_path: Path) -> None:
    data = packed(
        (entry("package", tarfile.DIRTYPE), b""),
        (entry("package/main.py"), b"print(1)"),
        (entry("run.sh", mode=0o755), b"#!/bin/sh"),
    )
    code = unpack(tmp_path, data)
    assert (code / "package" / "main.py").read_bytes() == b"print(1)"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in code.rglob("*")}
    assert modes == {"package": 0o555, "main.py": 0o444, "run.sh": 0o555}


@pytest.mark.parametrize(
    "name",
    [
        "../out",
        "/etc/passwd",
        "a/../../out",
        "C:evil",
        "a\\b",
        "con",
        "aux.txt",
        "dot.",
        "a\nb",
        "x" * 300,
        "caf\udce9.py",
    ],
)
def test_names_that_are_not_plain_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadBundle):
        unpack(tmp_path, packed((entry(name), b"x")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(BadBundle, match="neither a plain file nor a folder"):
        unpack(tmp_path, packed((entry("thing", kind, link="/etc/passwd"), b"")))


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="twice"):
        unpack(tmp_path, packed((entry("a"), b"1"), (entry("a"), b"2")))


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    with pytest.raises(BadBundle, match="more than"):
        unpack(tmp_path, packed((entry("zeros"), bytes(40 << 20))), max_bytes=8 << 20)
    assert sum(path.stat().st_size for path in (tmp_path / "code").rglob("*")) <= 10 << 20


def test_a_huge_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    header = entry("./PaxHeader", tarfile.XHDTYPE)
    with pytest.raises(BadBundle, match="header"):
        unpack(tmp_path, packed((header, bytes(30 << 20)), (entry("a"), b"")))


NO_ARCHIVES = {
    "empty": b"",
    "not gzip": b"not gzip",
    "not tar": gzip.compress(b"not tar" * 200, mtime=0),
    "cut off": packed((entry("a"), b"1" * 5000))[:60],
    "without an end": gzip.compress(gzip.decompress(packed((entry("a"), b"1")))[:1024], mtime=0),
}


@pytest.mark.parametrize("data", NO_ARCHIVES.values(), ids=NO_ARCHIVES)
def test_what_is_no_whole_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadBundle, match="not a whole"):
        unpack(tmp_path, data)


@pytest.mark.parametrize(
    "header", [{"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "a"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}]
)
def test_a_damaged_sparse_file_is_refused(tmp_path: Path, header: dict[str, str]) -> None:
    sparse = entry("a")
    sparse.pax_headers = header
    with pytest.raises(BadBundle):
        unpack(tmp_path, packed((sparse, b"x")))


KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"Z"])
NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "/", "c.py", "con"]), min_size=1, max_size=4).map("/".join)
MEMBERS = st.lists(st.tuples(NAMES, KINDS, st.binary(max_size=200)), max_size=8)


@settings(max_examples=60, deadline=None)
@given(MEMBERS)
def test_whatever_an_archive_holds_nothing_leaves_the_folder(members: list[tuple[str, bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name)
        data = packed(*[(entry(where, kind, link="../../x"), content) for where, kind, content in members])
        try:
            code = unpack(outer, data)
        except BadBundle:
            code = outer / "code"
        else:
            last = {where: content for where, kind, content in members if kind == tarfile.REGTYPE}
            assert all((code / where).read_bytes() == content for where, content in last.items())
        found = {Path(where, leaf) for where, _, leaves in os.walk(outer) for leaf in leaves}
        assert all(path.parent == outer or code in path.parents for path in found)
        assert not any(path.is_symlink() for path in found)
        for path in (code, *code.rglob("*")):
            path.chmod(0o755)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=2000), st.integers(0, 600), st.binary(min_size=1, max_size=20))
def test_a_damaged_archive_never_raises_anything_else(content: bytes, place: int, noise: bytes) -> None:
    raw = bytearray(gzip.decompress(packed((entry("a"), content), (entry("b", tarfile.DIRTYPE), b""))))
    raw[place : place + len(noise)] = noise
    with tempfile.TemporaryDirectory() as name:
        try:
            unpack(Path(name), gzip.compress(bytes(raw)))
        except BadBundle:
            return
        for path in (Path(name) / "code").rglob("*"):
            path.chmod(0o755)
        (Path(name) / "code").chmod(0o755)
