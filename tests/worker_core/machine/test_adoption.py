"""What a job leaves behind comes to the core, is told from the core's own children, and is ended with the job."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to an ancestor")

# In a process of its own: being an adopter is for life.
CORE = """
import json, subprocess, sys, time
from worker_core.jobs.process import end_tree, find_tree, identify
from worker_core.machine.adoption import adopt_orphans, adopted
from worker_core.machine.spawn import clean_environment, spawn

before = adopted()
assert adopt_orphans()
own = spawn(["sleep", "600"], env=clean_environment())
# Its children fork twice, take a session of their own and have an empty environment.
job = spawn(["sh", "-c", "for i in 1 2 3; do env -i setsid sh -c 'sleep 601 & sleep 602 &' & done; sleep 0.5"],
            env=clean_environment({"STOKER_ATTEMPT": "att_lost"}))
identity = identify(job.pid)
job.wait()
strangers = sorted(adopted())
tree = sorted(process.pid for process in find_tree(identity, "att_lost"))
end = end_tree(identity, "att_lost", limit_s=20)
print(json.dumps({
    "before": before, "strangers": len(strangers), "same": strangers == tree, "killed": end.killed,
    "left": end.left, "after": adopted(), "own_lives": own.poll() is None, "code": job.returncode,
}))
own.kill()
own.wait()
"""


def test_orphans_in_sessions_of_their_own_without_environment_are_found_and_ended() -> None:
    done = subprocess.run([sys.executable, "-c", CORE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen == {
        "before": [],
        "strangers": 6,
        "same": True,
        "killed": 6,
        "left": [],
        "after": [],
        "own_lives": True,
        "code": 0,
    }
