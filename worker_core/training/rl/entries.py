"""From a spec's ``entry`` to something that makes simulators: a registered Gymnasium id, or code of the job itself."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import gymnasium
from gymnasium import error as gymnasium_error
from gymnasium.wrappers import TimeLimit

from worker_core.training.rl.simulators import Maker, Simulator
from worker_core.wire.plan import DEFAULT_EPISODE_STEPS
from worker_core.wire.problems import FieldError
from worker_core.wire.spec import BadSpec

_ENTRY = "system.simulator.entry"
_INIT = "system.simulator.init"
_REGISTRY_ERRORS = (
    gymnasium_error.UnregisteredEnv,
    gymnasium_error.DeprecatedEnv,
    gymnasium_error.DependencyNotInstalled,
)


def find_simulator(entry: str, init: Mapping[str, object], max_episode_steps: int | None, code: Path) -> Maker:
    """Return what makes a simulator; raises :class:`BadSpec` when there is no such simulator."""
    if entry.startswith("gymnasium:"):
        return _registered(entry.removeprefix("gymnasium:"), init, max_episode_steps)
    return _own(entry, init, max_episode_steps, code)


def _registered(name: str, init: Mapping[str, object], max_episode_steps: int | None) -> Maker:
    try:
        own_limit = gymnasium.spec(name).max_episode_steps
    except gymnasium_error.Error as error:
        raise _bad(_ENTRY, f"{name!r} is no registered simulator of this worker: {error}") from error
    limit = max_episode_steps or own_limit or DEFAULT_EPISODE_STEPS

    def make() -> Simulator:
        try:
            return gymnasium.make(name, max_episode_steps=limit, disable_env_checker=True, **dict(init))  # pyright: ignore
        except _REGISTRY_ERRORS as error:
            raise _bad(_ENTRY, f"{name!r} cannot be made on this worker: {error}") from error
        except TypeError as error:
            if init and _is_about_arguments(error):
                raise _bad(_INIT, f"{name!r} does not take these arguments: {error}") from error
            raise

    return make


def _own(entry: str, init: Mapping[str, object], max_episode_steps: int | None, code: Path) -> Maker:
    factory = _import_own(entry, code)

    def make() -> Simulator:
        try:
            inspect.signature(factory).bind(**init)
        except TypeError as error:
            raise _bad(_INIT, f"{entry} does not take these arguments: {error}") from error
        made = factory(**init)
        if not isinstance(made, gymnasium.Env):
            kind = type(made).__name__
            raise _bad(_ENTRY, f"{entry} made a {kind}; it must make a gymnasium.Env (class MyEnv(gymnasium.Env))")
        simulator = cast(Simulator, made)
        if max_episode_steps is None and _has_limit(simulator):
            return simulator
        return TimeLimit(simulator, max_episode_steps or DEFAULT_EPISODE_STEPS)

    return make


def _import_own(entry: str, code: Path) -> Callable[..., object]:
    """Return the class or function of the job's own files that ``entry`` names."""
    module_name, _, attribute = entry.partition(":")
    top = module_name.partition(".")[0]
    if not any(path.exists() for path in (code / f"{top}.py", code / top)):
        names = ", ".join(sorted(path.name for path in code.glob("*"))[:20]) if code.is_dir() else ""
        raise _bad(_ENTRY, f"there is no module {top!r} in the job's files ({names or 'the job has none'})")
    if str(code) not in sys.path:
        sys.path.insert(0, str(code))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == top:
            raise _bad(_ENTRY, f"there is no module {module_name!r} in the job's files") from error
        raise
    origin = getattr(found, "__file__", None)
    if origin is not None and not Path(origin).resolve().is_relative_to(code.resolve()):
        raise _bad(
            _ENTRY, f"{module_name!r} is a module of this worker ({origin}); give the job's own module another name"
        )
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise _bad(_ENTRY, f"module {module_name!r} has no class or function {attribute!r}")
    return found


def _has_limit(simulator: Simulator) -> bool:
    layer: gymnasium.Env[Any, Any] = simulator
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimit):
            return True
        layer = cast("gymnasium.Wrapper[Any, Any, Any, Any]", layer).env
    return False


def _is_about_arguments(error: TypeError) -> bool:
    return "argument" in str(error)


def _bad(field: str, message: str) -> BadSpec:
    return BadSpec((FieldError(field=field, message=message),))
