"""How a job fails: with a class, one message a person can act on, and a traceback where the fault is in their code."""

import pytest
from training_core import JobShop, quick_spec

from worker_core.wire.failure_rules import cure_of
from worker_core.wire.frames import JobError

HEAD = "import gymnasium, numpy\nfrom gymnasium import spaces\n"
BODY = """
class Env(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}
    def step(self, action):
        STEP
"""


def own(code: str, entry: str = "mine:Env", **simulator: object) -> tuple[dict[str, object], dict[str, str]]:
    spec = quick_spec(system={"simulator": {"entry": entry, **simulator}}, files=["mine.py"])
    return spec, {"mine.py": HEAD + code}


def error_of(shop: JobShop, spec: dict[str, object], code: dict[str, str] | None = None) -> JobError:
    job = shop.run(spec, code)
    assert job.wait() == 1
    assert job.done().outcome == "failed"
    error = job.done().error
    assert error is not None
    return error


def test_a_simulator_id_that_does_not_exist_is_a_bad_spec_that_names_the_likely_one(shop: JobShop) -> None:
    error = error_of(shop, quick_spec("CartPol-v1"))
    assert (error.failure, error.traceback) == ("bad-spec", "")
    assert "system.simulator.entry" in error.message
    assert "CartPole" in error.message


def test_arguments_that_a_simulator_does_not_take_are_a_bad_spec(shop: JobShop) -> None:
    simulator = {"entry": "gymnasium:CartPole-v1", "init": {"gravitation": 3}}
    error = error_of(shop, quick_spec(system={"simulator": simulator}))
    assert error.failure == "bad-spec"
    assert "system.simulator.init" in error.message
    assert "gravitation" in error.message


def test_a_spec_that_is_not_valid_is_a_bad_spec(shop: JobShop) -> None:
    error = error_of(shop, quick_spec(training={"cycles": 0}))
    assert (error.failure, "1 to 10,000" in error.message) == ("bad-spec", True)


def test_an_error_in_the_users_code_comes_with_its_traceback_and_in_the_log(shop: JobShop) -> None:
    spec, code = own(BODY.replace("STEP", "raise RuntimeError('the motor is off')"))
    job = shop.run(spec, code)
    error = job.done().error
    assert error is not None
    assert (error.failure, error.message) == ("exception", "RuntimeError: the motor is off")
    assert 'mine.py", line' in error.traceback
    assert "the motor is off" in job.output()


@pytest.mark.parametrize("what", ["KeyboardInterrupt", "SystemExit(3)"])
def test_code_that_raises_what_ctrl_c_raises_has_failed_by_itself(shop: JobShop, what: str) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", f"raise {what}")))
    assert (error.failure, what.split("(")[0] in error.traceback) == ("exception", True)


def test_an_import_error_in_the_users_code_is_theirs(shop: JobShop) -> None:
    error = error_of(shop, *own("import no_such_thing\n" + BODY))
    assert (error.failure, "no_such_thing" in error.message) == ("exception", True)


@pytest.mark.parametrize("entry", ["mine:Other", "theirs:Env", "os:system", "mine.sub:Env"])
def test_an_entry_outside_the_jobs_files_is_refused(shop: JobShop, entry: str) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "pass"), entry))
    assert (error.failure, "system.simulator.entry" in error.message) == ("bad-spec", True)


def test_arguments_of_the_users_own_class_are_checked(shop: JobShop) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "pass"), init={"speed": 3}))
    assert (error.failure, "system.simulator.init" in error.message) == ("bad-spec", True)


def test_a_simulator_of_old_gym_is_explained_before_training(shop: JobShop) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "return numpy.zeros(1, numpy.float32), 0.0, False, {}")))
    assert error.failure == "bad-spec"
    assert "it must return 5" in error.message


BAD_VALUES = {
    "a reward in the benchmark": ("0.0, float('inf') if self.n > 55 else 1.0", "benchmark episode of seed 1000"),
    "an observation in the benchmark": ("float('nan') if self.n > 55 else 0.0, 1.0", "benchmark episode of seed 1000"),
    "a reward in training": ("0.0, float('nan') if self.total > 150 else 1.0", "simulator 0 gave a reward"),
    "an observation in training": ("float('nan') if self.total > 150 else 0.0, 1.0", "simulator 0 gave an observation"),
    "the last observation of all": ("float('nan') if self.total == 192 else 0.0, 1.0", "gave an observation"),
}


@pytest.mark.parametrize(("values", "told"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_value_that_is_none_fails_the_job_by_name(shop: JobShop, values: str, told: str) -> None:
    # The checker plays fifty steps, the benchmark sixty, and a rollout begins sixty-four in each simulator.
    code = f"""
class Env(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,), numpy.float32)
    action_space = spaces.Discrete(2)
    total = 0
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        return numpy.zeros(1, numpy.float32), {{}}
    def step(self, action):
        self.n += 1
        self.total += 1
        seen, reward = {values}
        return numpy.full(1, seen, numpy.float32), reward, False, False, {{}}
"""
    spec, files = own(code)
    spec["benchmark"] = {"episodes_per_scenario": 1}
    spec["training"] = {"cycles": 4, "simulators": 1, "max_episode_steps": 60, "rollout_fragment_length": 192}
    error = error_of(shop, spec, files)
    assert error.failure == "exception"
    assert told in error.message
    assert "finite number; correct the simulator" in error.message


def test_running_out_of_memory_has_its_own_class(shop: JobShop) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "raise MemoryError('no room for the map')")))
    assert error.failure == "out-of-memory"


def test_an_input_that_is_missing_has_its_own_class(shop: JobShop) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "open('inputs/map.bin')")))
    assert (error.failure, "map.bin" in error.message) == ("data-missing", True)


def test_a_device_that_is_not_there_is_a_bad_spec(shop: JobShop) -> None:
    error = error_of(shop, quick_spec(training={"cycles": 1, "device": "mps"}))
    assert (error.failure, "training.device" in error.message) == ("bad-spec", True)


def test_training_that_diverges_says_what_to_change(shop: JobShop) -> None:
    step = "return numpy.full(1, 1e38, numpy.float32), 1e30, False, self.np_random.random() < 0.1, {}"
    error = error_of(shop, *own(BODY.replace("STEP", step)))
    assert error.failure == "numeric"
    assert "diverged" in error.message
    assert "learning_rate" in cure_of(error.failure)


def test_code_that_leaves_by_itself_is_told_as_a_failure(shop: JobShop) -> None:
    error = error_of(shop, *own(BODY.replace("STEP", "import sys; sys.exit(3)")))
    assert (error.failure, error.message) == ("exception", "SystemExit: 3")
