"""Checkpoint files: complete or absent, kept or removed by rule."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_core.training.checkpoints import CheckpointStore, load_checkpoint
from worker_core.training.failures import JobFailure

SPEC = "0" * 64
ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([2**40], np.int64)}


def store_in(folder: Path, keep: int = 2) -> CheckpointStore:
    return CheckpointStore(folder / "checkpoints", SPEC, keep)


def names(folder: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in (folder / "checkpoints").glob("*.safetensors"))


def test_what_was_saved_comes_back_exactly(tmp_path: Path) -> None:
    state = {"big": 2**127, "float": 0.1, "text": "ü"}
    saved = store_in(tmp_path).save(ARRAYS, state, 7, 1.0)
    arrays, loaded = load_checkpoint(tmp_path / saved.path, saved.sha256, SPEC)
    assert loaded == state
    assert all(
        np.array_equal(arrays[name], array) and arrays[name].dtype == array.dtype for name, array in ARRAYS.items()
    )


def test_the_newest_and_the_best_are_kept_once_the_core_holds_the_others(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for step, score in enumerate([1.0, 9.0, 2.0, 3.0, 4.0]):
        store.save(ARRAYS, {}, step, score)
        store.announced(step)
        store.prune(lambda _frame_id: True)
    assert names(tmp_path) == [1, 3, 4]


def test_a_checkpoint_the_core_does_not_hold_yet_stays(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for step in range(5):
        store.save(ARRAYS, {}, step, float(step))
        store.announced(step)
        store.prune(lambda frame_id: frame_id == 0)
    assert names(tmp_path) == [1, 2, 3, 4]


def test_latest_names_a_whole_file(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for step in (3, 5):
        saved = store.save(ARRAYS, {}, step, 0.0)
    latest = json.loads((tmp_path / "checkpoints" / "latest.json").read_text())
    assert latest == {
        "path": "checkpoints/step-000000000005.safetensors",
        "step": 5,
        "sha256": saved.sha256,
        "size": saved.size,
    }
    assert not list(tmp_path.rglob("*.tmp"))


@given(cut=st.integers(0, 400), at=st.integers(0, 399))
def test_any_damage_is_refused_by_name(tmp_path_factory: pytest.TempPathFactory, cut: int, at: int) -> None:
    folder = tmp_path_factory.mktemp("damage")
    saved = store_in(folder).save(ARRAYS, {}, 1, 0.0)
    path = folder / saved.path
    whole = path.read_bytes()
    damaged = bytearray(whole[: len(whole) - cut])
    if at < len(damaged):
        damaged[at] ^= 0xFF
    path.write_bytes(damaged)
    if bytes(damaged) != whole:
        with pytest.raises(JobFailure, match=path.name):
            load_checkpoint(path, saved.sha256, SPEC)


def test_arrays_other_than_the_header_says_are_refused_even_under_their_own_hash(tmp_path: Path) -> None:
    import hashlib

    saved = store_in(tmp_path).save(ARRAYS, {}, 1, 0.0)
    path = tmp_path / saved.path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(JobFailure, match="other arrays"):
        load_checkpoint(path, hashlib.sha256(data).hexdigest(), SPEC)


def test_the_newest_whole_checkpoint_is_found_and_torn_ones_are_set_aside_and_named(tmp_path: Path) -> None:
    store, said = store_in(tmp_path, keep=5), list[str]()
    paths = [tmp_path / store.save(ARRAYS, {"step": step}, step, float(step)).path for step in range(4)]
    paths[3].write_bytes(paths[3].read_bytes()[:-7])
    paths[2].unlink()
    found = store.newest(said.append)
    assert found is not None
    assert found[1:] == ({"step": 1}, 1)
    assert "step-000000000003.safetensors" in said[0]
    assert "set aside as step-000000000003.torn" in said[0]
    assert "is missing" in said[1]
    assert paths[3].with_suffix(".torn").exists()
    assert names(tmp_path) == [0, 1]
    assert store_in(tmp_path / "empty").newest(said.append) is None
