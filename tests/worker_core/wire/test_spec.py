"""Job specs: what is accepted, and what is said about what is not."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker_core.wire.spec import (
    BadSpec,
    JobSpec,
    attempt_limits,
    canonical_text,
    learned_skill,
    load_spec,
    parse_spec,
)

EXAMPLES = Path(__file__).parents[3] / "examples"


def short_form(**keys: object) -> dict[str, object]:
    return {"kind": "rl-session", "name": "n", "system": {"simulator": {"entry": "gymnasium:CartPole-v1"}}, **keys}


def errors_of(raw: dict[str, object]) -> dict[str, str]:
    with pytest.raises(BadSpec) as refused:
        parse_spec(raw)
    return {error.field: error.message for error in refused.value.errors}


def test_the_smallest_spec_gets_every_default() -> None:
    spec = parse_spec(short_form())
    assert (spec.training.cycles, spec.training.simulators, spec.checkpoint.keep) == (100, 1, 5)
    assert (spec.limits.max_runtime_minutes, spec.retry.max_attempts, spec.target.worker) == (720, 3, "any")
    assert learned_skill(spec).name == "policy"


def test_all_mistakes_are_listed_at_once_with_value_and_range() -> None:
    errors = errors_of(
        short_form(
            seed=-1,
            training={"cycles": 0, "simulators": 65, "rollout_fragment_length": "some"},
            checkpoint={"grace_seconds": 4},
            ppo={"gamma": 1.5},
        )
    )
    assert errors["training.cycles"] == "0 is not allowed; it must be a whole number from 1 to 10,000"
    assert "1 to 64" in errors["training.simulators"]
    assert "8 to 4,096 or 'auto'" in errors["training.rollout_fragment_length"]
    assert "5 to 300" in errors["checkpoint.grace_seconds"]
    assert set(errors) >= {"seed", "ppo.gamma"}
    assert len(errors) == 6


def test_what_this_version_does_not_do_is_refused_and_not_ignored() -> None:
    errors = errors_of(short_form(limits={"max_spend": 5}, kind="repository"))
    assert set(errors) == {"limits.max_spend", "kind"}


@pytest.mark.parametrize("entry", ["gymnasium:CartPole-v1\n", "my_env:Room\n", "os.system", "my_env:Room()", "../x:Y"])
def test_an_entry_is_nothing_but_a_name(entry: str) -> None:
    assert "system.simulator.entry" in errors_of(
        short_form(system={"simulator": {"entry": entry}}, files=["my_env.py"])
    )


def test_an_unknown_key_is_an_error_that_names_the_likely_one() -> None:
    assert "did you mean cycles" in errors_of(short_form(training={"cycle": 3}))["training.cycle"]


def test_a_missing_key_is_named() -> None:
    assert (
        "is missing" in errors_of({"kind": "rl-session", "system": {"simulator": {"entry": "gymnasium:A-v0"}}})["name"]
    )


@pytest.mark.parametrize("key", ["sensors", "scenarios", "goals", "selector", "perceptors"])
def test_the_full_form_is_refused_by_name(key: str) -> None:
    system = {"simulator": {"entry": "gymnasium:CartPole-v1"}, key: []}
    assert "not supported by this version" in errors_of(short_form(system=system))[f"system.{key}"]


def test_a_skill_with_goals_is_refused_by_name() -> None:
    system = {"simulator": {"entry": "gymnasium:CartPole-v1"}, "skills": [{"name": "hold", "goals": []}]}
    assert "not supported" in errors_of(short_form(system=system))["system.skills[0].goals"]


def test_two_skills_are_refused() -> None:
    system = {"simulator": {"entry": "gymnasium:CartPole-v1"}, "skills": [{"name": "a"}, {"name": "b"}]}
    assert "at most 1" in errors_of(short_form(system=system))["system.skills"]


@pytest.mark.parametrize("kind", ["repository", "multi-turn-rl", "other", 3])
def test_another_kind_is_refused(kind: object) -> None:
    assert "rl-session" in errors_of(short_form(kind=kind))["kind"]


@pytest.mark.parametrize(
    "entry",
    ["CartPole-v1", "gymnasium:", "os:system()", "a b:C", "module:", ":Class", "gymnasium:os:Env-v0", "http://x"],
)
def test_an_entry_that_is_neither_registered_nor_own_code_is_refused(entry: str) -> None:
    assert "system.simulator.entry" in errors_of(short_form(system={"simulator": {"entry": entry}}, files=["a.py"]))


def test_own_code_needs_files() -> None:
    assert "files" in errors_of(short_form(system={"simulator": {"entry": "my:Env"}}))["system.simulator.entry"]


@pytest.mark.parametrize("name", ["../x.py", "/etc/passwd", "a\\b.py", "C:/x.py", "a/../../b"])
def test_a_file_outside_the_spec_folder_is_refused(name: str) -> None:
    assert "below the spec's folder" in errors_of(short_form(files=["ok.py", name]))["files[1]"]


def test_arguments_that_json_cannot_carry_are_refused() -> None:
    system = {"simulator": {"entry": "gymnasium:A-v0", "init": {"deep": [1.0, float("inf")]}}}
    assert "system.simulator.init.deep[1]" in errors_of(short_form(system=system))


def test_hyperparameters_stand_at_the_top_or_with_the_skill_but_not_twice() -> None:
    skill = {"name": "land", "ppo": {"gamma": 0.9}}
    system = {"simulator": {"entry": "gymnasium:A-v0"}, "skills": [skill]}
    spec = parse_spec(short_form(system=system))
    assert (learned_skill(spec).name, learned_skill(spec).ppo) == ("land", skill_ppo(spec, gamma=0.9))
    assert "keep one" in errors_of(short_form(system=system, ppo={"gamma": 0.8}))["ppo"]


def skill_ppo(spec: JobSpec, gamma: float) -> object:
    ppo = learned_skill(spec).ppo
    assert ppo is not None
    assert ppo.gamma == gamma
    return ppo


def test_more_simulators_than_steps_is_refused() -> None:
    assert "at least 8" in errors_of(short_form(training={"simulators": 8, "total_steps": 7}))["training.total_steps"]


def test_a_table_where_a_number_stands_is_named() -> None:
    errors = errors_of(short_form(target=3, limits=[], training="much"))
    assert all("table of keys" in errors[field] for field in ("target", "limits", "training"))


@pytest.mark.parametrize("text", ["", "[]", "{", "3", '{"a": NaN}', "\x00", '{"kind": "rl-session"'])
def test_text_that_is_no_spec_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(BadSpec):
        load_spec(text)


def test_a_giant_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadSpec, match="longer than"):
        load_spec("{" + " " * (1 << 20))


def test_the_text_that_travels_does_not_depend_on_the_order_of_keys() -> None:
    raw = short_form(seed=3, ppo={"gamma": 0.9, "n_epochs": 2})
    turned = dict(reversed(raw.items()))
    assert canonical_text(raw) == canonical_text(turned)
    assert load_spec(canonical_text(raw)) == load_spec(canonical_text(parse_spec(raw))) == parse_spec(raw)


def test_quick_mode_limits_the_run_time() -> None:
    assert attempt_limits(parse_spec(short_form(mode="quick"))).max_runtime_s == 300
    assert attempt_limits(parse_spec(short_form(limits={"silence_seconds": 20}))).silence_s == 20


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_a_good_spec(path: Path) -> None:
    spec = parse_spec(tomllib.loads(path.read_text()))
    assert all((path.parent / name).exists() for name in spec.files)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "kind",
        "name",
        "system",
        "training",
        "ppo",
        "files",
        "target",
        "limits",
        "checkpoint",
        "benchmark",
        "stop",
        "mode",
        "x",
    ]
)


@settings(max_examples=60)
@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_whatever_is_written_is_a_spec_or_a_list_of_errors(raw: dict[str, object]) -> None:
    given_keys = {key: value for key, value in raw.items() if key not in ("kind", "name")}
    spec, errors = read(short_form(**given_keys))
    assert spec is not None or errors
    assert all(errors)
    assert spec is None or parse_spec(json.loads(canonical_text(spec))) == spec


def read(raw: dict[str, object]) -> tuple[JobSpec | None, list[str]]:
    try:
        return parse_spec(raw), []
    except BadSpec as refused:
        return None, [error.message for error in refused.errors]


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(BadSpec):
        load_spec(text)
