"""Fuzzes every parser at a border with atheris, each for its share of the time: executions a parser and findings.

The fuzzer is installed beside the project's own packages when it is missing. The exit code is 1 for any finding; its
input is kept and named.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench._fuzz_targets import TARGETS, clean_up

ATHERIS = "atheris==3.0.0"
PACKAGES = Path(sys.prefix) / "fuzz-packages"
_INSTALL_S = 300.0
_SLACK_S = 120.0
_TIMEOUT_S = 20
_MEMORY_MB = 2048


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=5.0, help="how long in all")
    options.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this parser; may be repeated")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    asked = options.parse_args(argv)
    clean_up()  # the children have folders of their own
    if not install():
        print("bench fuzz: atheris cannot be installed for this Python", file=sys.stderr)
        return 1
    names: list[str] = asked.target or list(TARGETS)
    seconds = max(1, int(60 * asked.minutes / len(names)))
    kept = Path(tempfile.mkdtemp(prefix="stoker-findings-"))
    executions: dict[str, int] = {}
    findings: dict[str, list[str]] = {}
    try:
        for name in names:
            executions[name], findings[name] = fuzz(name, seconds, kept)
            if not asked.json:
                told = f"{len(findings[name])} findings in {kept}" if findings[name] else "no finding"
                print(f"{name:22} {executions[name]:>10,} executions in {seconds} s, {told}", flush=True)
    except KeyboardInterrupt:
        return 130
    found = sum(map(len, findings.values()))
    total = sum(executions.values())
    if asked.json:
        figures = {"bench": "fuzz", "executions": executions, "total": total, "findings": findings, "ok": not found}
        print(json.dumps(figures))
    else:
        print(f"{total:,} executions over {len(names)} parsers, {found} findings")
    if not found:
        kept.rmdir()
    return 1 if found or not all(executions.values()) else 0


def install() -> bool:
    """Install the fuzzer, once; True when it is there."""
    if (PACKAGES / "atheris").exists():
        return True
    command = [*(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")]
    done = subprocess.run([*command, "--target", str(PACKAGES), ATHERIS], timeout=_INSTALL_S, check=False)
    return done.returncode == 0


def fuzz(name: str, seconds: int, kept: Path) -> tuple[int, list[str]]:
    """Fuzz one parser in a process of its own; returns executions and the files of the inputs that were findings."""
    with tempfile.TemporaryDirectory(prefix="stoker-fuzz-") as folder:
        corpus, work = Path(folder) / "corpus", Path(folder) / "work"
        corpus.mkdir()
        work.mkdir()
        for number, seed in enumerate(TARGETS[name].seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        command = [
            *(sys.executable, "-m", "bench._fuzz_child", name, str(corpus), f"-artifact_prefix={kept / name}-"),
            *(f"-max_total_time={seconds}", f"-timeout={_TIMEOUT_S}", f"-rss_limit_mb={_MEMORY_MB}"),
            *("-print_final_stats=1", "-max_len=4096", "-verbosity=0"),
        ]
        path = os.pathsep.join((str(PACKAGES), str(Path(__file__).parents[1])))
        environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(work)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said = process.communicate(timeout=seconds + _SLACK_S)[0].decode(errors="replace")
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            raise
    files = sorted(path.name for path in kept.glob(f"{name}-*"))
    if process.returncode != 0 or files:
        print(said[-4000:], file=sys.stderr)
    stats = re.search(r"number_of_executed_units:\s*(\d+)", said)
    executed = int(stats.group(1)) if stats else 0
    return executed, files or ([f"exit code {process.returncode}"] if process.returncode else [])


if __name__ == "__main__":
    sys.exit(main())
