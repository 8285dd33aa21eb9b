"""A job's code: the same bytes for the same content, and nothing from outside the spec's folder."""

import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli import bundle
from app.cli.bundle import pack
from app.cli.errors import WrongUsage


def _fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _members(data: bytes) -> dict[str, bytes | None]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {entry.name: _content(archive, entry) for entry in archive.getmembers()}


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes | None:
    file = archive.extractfile(entry)
    return file.read() if file else None


def test_no_files_make_no_bundle(tmp_path: Path) -> None:
    assert pack([], tmp_path) is None


def test_files_and_folders_are_packed_under_their_own_names(tmp_path: Path) -> None:
    _fill(tmp_path, {"my_env.py": b"x = 1", "pkg/__init__.py": b"", "pkg/deep/mod.py": b"y = 2", "other.py": b"no"})
    packed = pack(["my_env.py", "pkg/"], tmp_path)
    assert packed is not None
    assert _members(packed.data) == {
        "pkg": None,
        "pkg/deep": None,
        "my_env.py": b"x = 1",
        "pkg/__init__.py": b"",
        "pkg/deep/mod.py": b"y = 2",
    }


_NAMES = st.text("abc", min_size=1, max_size=4).map(lambda name: f"{name}.py")


@settings(max_examples=30, deadline=None)
@given(files=st.dictionaries(_NAMES, st.binary(max_size=50), min_size=1, max_size=5), seconds=st.integers(0, 2**31))
def test_equal_content_gives_equal_bytes_whatever_the_order_and_the_times(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], seconds: int
) -> None:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    _fill(one, files)
    _fill(other, dict(reversed(files.items())))
    for name in files:
        os.utime(other / name, (seconds, seconds))
        (other / name).chmod(0o600)
    first, second = pack(sorted(files), one), pack(sorted(files, reverse=True), other)
    assert first is not None
    assert second is not None
    assert first.data == second.data
    assert first.sha256 == second.sha256


def test_caches_and_hidden_histories_stay_at_home(tmp_path: Path) -> None:
    _fill(tmp_path, {"pkg/a.py": b"a", "pkg/__pycache__/a.pyc": b"c", "pkg/.git/HEAD": b"h", "pkg/b.pyc": b"b"})
    packed = pack(["pkg"], tmp_path)
    assert packed is not None
    assert packed.names == ("pkg/a.py",)


def test_a_missing_file_is_named_with_the_folder_it_was_looked_for_in(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match=r"missing\.py does not exist") as caught:
        pack(["missing.py"], tmp_path)
    assert str(tmp_path) in caught.value.why


@pytest.mark.parametrize("listed", ["../other.py", "/etc/passwd", "pkg/../../x", "", "a\\b.py", "a\0.py"])
def test_paths_that_leave_the_spec_s_folder_are_refused(tmp_path: Path, listed: str) -> None:
    with pytest.raises(WrongUsage, match="cannot be packed"):
        pack([listed], tmp_path)


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(WrongUsage, match="link that leads to itself"):
        pack(["ring"], tmp_path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    folder = tmp_path / "spec"
    folder.mkdir()
    (folder / "harmless.py").symlink_to(tmp_path / "secret")
    with pytest.raises(WrongUsage) as caught:
        pack(["harmless.py"], folder)
    assert "leads out of the spec's folder" in caught.value.why


def test_a_link_inside_the_folder_travels_as_the_file_it_means(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1")
    (tmp_path / "alias.py").symlink_to("real.py")
    packed = pack(["alias.py"], tmp_path)
    assert packed is not None
    assert _members(packed.data) == {"alias.py": b"x = 1"}


def test_a_link_to_a_folder_is_refused_so_that_no_ring_can_be_packed(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "again").symlink_to(tmp_path / "pkg")
    with pytest.raises(WrongUsage) as caught:
        pack(["pkg"], tmp_path)
    assert "link to a folder" in caught.value.why


def test_too_much_content_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_BYTES", 1 << 20)
    _fill(tmp_path, {"data/big.bin": b"0" * ((1 << 20) + 1)})
    with pytest.raises(WrongUsage, match="too much") as caught:
        pack(["data"], tmp_path)
    assert "1 MiB" in caught.value.why


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILES", 3)
    _fill(tmp_path, {f"pkg/{number}.py": b"" for number in range(4)})
    with pytest.raises(WrongUsage, match="too much"):
        pack(["pkg"], tmp_path)
