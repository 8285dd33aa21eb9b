"""What `stoker doctor` says of containment: it tries what a worker would use."""

from collections.abc import Iterator

from app.cli.containment_words import containment_words
from app.cli.doctor_finding import Finding
from worker_core.core.job_safety import policy_of
from worker_core.core.settings import BadSettings, read_settings
from worker_core.jobs.sandbox.cell import is_contained, shown
from worker_core.jobs.sandbox.confinement import Confinement
from worker_core.jobs.sandbox.finder import find_containment
from worker_core.machine.paths import Paths


def containment_findings(paths: Paths) -> Iterator[Finding]:
    """Try what would contain a job here, and say what is in force."""
    try:
        policy = policy_of(read_settings(paths))
    except BadSettings as error:
        yield Finding(name="containment", state="problem", text=f"{error}.", cure="Correct the settings.")
        return
    confinement = Confinement(find_containment(paths), policy)
    words = containment_words(shown(confinement.containment, allow_network=policy.allow_network))
    if is_contained(confinement.containment):
        yield Finding(name="containment", state="ok", text=f"Jobs are contained by {words}.")
    elif confinement.refusal:
        text = "Nothing contains jobs here, so none is taken."
        yield Finding(name="containment", state="problem", text=text, cure=confinement.refusal)
    else:
        text = f"Jobs run uncontained, as allow_uncontained says; what holds them is {words}."
        yield Finding(name="containment", state="warning", text=text, cure=confinement.containment.detail)
