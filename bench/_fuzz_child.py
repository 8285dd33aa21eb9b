"""One parser under the fuzzer: the process that `bench.fuzz` starts, with the fuzzer's packages on its path."""

import sys
from importlib import import_module
from typing import Any

OURS = ["worker_core", "coordinator", "app", "joserfc", "tarfile", "gzip", "email", "tomllib", "yaml"]


def main() -> None:
    """Fuzz the parser named first; what follows is for libFuzzer."""
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=OURS):
        targets = import_module("bench._fuzz_targets")
    name, *rest = sys.argv[1:]
    read = targets.TARGETS[name].read
    atheris.Setup([sys.argv[0], *rest], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
