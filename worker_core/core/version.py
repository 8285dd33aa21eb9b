"""The version of this program."""

from importlib.metadata import PackageNotFoundError, version


def _installed_version() -> str:
    try:
        return version("stoker")
    except PackageNotFoundError:
        return "0.0.0"  # run from a tree that is not installed


VERSION = _installed_version()
