"""A spec is the same whether written as JSON, TOML or YAML, and what is wrong with it is said."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.errors import WrongUsage
from app.cli.spec_files import MAX_SPEC_BYTES, read_spec

_SAME = {
    "job.json": '{"name": "a", "seed": 3, "training": {"cycles": 2}, "ppo": {"learning_rate": 3e-4}}',
    "job.toml": 'name = "a"\nseed = 3\nppo = { learning_rate = 3e-4 }\n[training]\ncycles = 2\n',
    "job.yaml": "name: a\nseed: 3\ntraining:\n  cycles: 2\nppo:\n  learning_rate: 3e-4\n",
}
_WANTED = {"name": "a", "seed": 3, "training": {"cycles": 2}, "ppo": {"learning_rate": 3e-4}}


@pytest.mark.parametrize("name", _SAME)
def test_the_three_languages_say_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(_SAME[name])
    assert read_spec(path) == _WANTED


@pytest.mark.parametrize("name", _SAME)
def test_a_file_without_a_telling_ending_is_read_by_its_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / "spec"
    path.write_text(_SAME[name])
    assert read_spec(path) == _WANTED


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(value=st.dictionaries(st.text(), _PLAIN, max_size=4))
def test_whatever_json_can_say_arrives_unchanged(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(value))
    assert read_spec(path) == value


@settings(max_examples=40, deadline=None)
@given(
    value=st.dictionaries(st.text("abc_", min_size=1), st.integers() | st.floats(allow_nan=False, allow_infinity=False))
)
def test_numbers_written_by_yaml_arrive_as_numbers(
    tmp_path_factory: pytest.TempPathFactory, value: dict[str, float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(value))
    assert read_spec(path) == value


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", '{"name": }', "line 1"),
        ("a.toml", "name = \nseed = 1", "line 1"),
        ("a.yaml", "name: [1, 2", "line 1"),
        ("a.json", '{"seed": 1, "seed": 2}', "'seed' stands twice"),
        ("a.json", "[1, 2]", "table of keys"),
        ("a.json", '{"a":' + "[" * 100_000, "nested too deeply"),
        ("a.toml", "a = " + "[" * 100_000, "nested too deeply"),
        ("a.yaml", "a: " + "[" * 5_000, "nested too deeply"),
        ("a.toml", "when = 2026-01-01", "when is a date"),
        ("a.toml", "training = { cycles = inf }", "training.cycles is inf"),
        ("a.yaml", "x: {y: [1, .nan]}", "x.y[1] is nan"),
        ("a.yaml", "1: one", "the key 1 in the spec is not text"),
        ("a.yaml", "x: !!python/object/apply:os.system [ls]", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(WrongUsage) as caught:
        read_spec(path)
    assert told in f"{caught.value.what} {caught.value.why}"
    assert caught.value.exit_code == 2


def test_a_missing_a_foreign_and_a_huge_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="There is no file"):
        read_spec(tmp_path / "none.toml")
    (tmp_path / "image.toml").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(WrongUsage, match="not text in UTF-8"):
        read_spec(tmp_path / "image.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * (MAX_SPEC_BYTES + 1))
    with pytest.raises(WrongUsage, match="too large"):
        read_spec(tmp_path / "huge.toml")
    with pytest.raises(WrongUsage, match="Cannot read"):
        read_spec(tmp_path)
