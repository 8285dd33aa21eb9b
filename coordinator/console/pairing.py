"""Approving a worker by its code: look it up, compare, decide what it may do and for how long."""

from dataclasses import dataclass, field

from starlette.responses import Response

from coordinator.api.auth import client_ip
from coordinator.console.doors import Form, form, page
from coordinator.console.pages import Notice, Visit, go, show
from coordinator.console.words import moment, sentence
from worker_core.wire.pairing import BadUserCode, PairingApproval, PairingFound, normalise_user_code
from worker_core.wire.problems import ProblemError

DAY_S = 86400
DEFAULT_DAYS = 30
SCOPES = (("any", "Any job"), ("rl-session", "RL training sessions"))


@dataclass(frozen=True)
class Length:
    """A length of authorization that a person may choose, and the moment it would end."""

    days: int
    until: str

    @property
    def seconds(self) -> int:
        """The length in seconds."""
        return self.days * DAY_S

    @property
    def word(self) -> str:
        """The length as people say it."""
        return "1 day" if self.days == 1 else f"{self.days} days"


@dataclass(frozen=True)
class Choices:
    """What a person entered on the confirm page, kept when it has to be shown again."""

    name: str
    ticked: tuple[str, ...] = ()
    chosen_s: int = DEFAULT_DAYS * DAY_S
    extend: bool = False
    errors: dict[str, str] = field(default_factory=dict[str, str])


def lengths(now: float) -> list[Length]:
    """Return the lengths of authorization to choose from."""
    return [Length(days, moment(now + days * DAY_S)) for days in (1, 7, 30, 90)]


def chosen_length(posted: Form) -> int:
    """Return the length chosen, in seconds; anything not on the list means the default."""
    allowed = {str(length.seconds): length.seconds for length in lengths(0)}
    return allowed.get(posted.text("authorization_s"), DEFAULT_DAYS * DAY_S)


async def _code_page(visit: Visit) -> Response:
    return _code_form(visit)


async def _look_up(visit: Visit, posted: Form) -> Response:
    typed = posted.text("user_code")
    try:
        code = normalise_user_code(typed)
        found = await visit.services.pairings.lookup(visit.person, code, client_ip(visit.request))
    except BadUserCode as error:
        return _wrong_code(visit, typed, sentence(str(error)))
    except ProblemError as error:
        if error.code not in ("code-not-found", "rate-limited"):
            raise
        return _wrong_code(visit, typed, sentence(str(error)))
    return _confirm(visit, found, code, Choices(name=found.device_name))


def _wrong_code(visit: Visit, typed: str, wrong: str) -> Response:
    return _code_form(visit, 422, typed=typed[:40], wrong=wrong)


def _code_form(visit: Visit, status: int = 200, typed: str = "", wrong: str = "") -> Response:
    switched_off_s = visit.services.pairings.tries.switched_off_s()
    return show(visit, "pair.html", status, typed=typed, wrong=wrong, switched_off_s=switched_off_s)


def _confirm(visit: Visit, found: PairingFound, code: str, choices: Choices) -> Response:
    status = 422 if choices.errors else 200
    return show(
        visit,
        "pair_confirm.html",
        status,
        found=found,
        user_code=code,
        name=choices.name,
        ticked=choices.ticked,
        chosen_s=choices.chosen_s,
        extend=choices.extend,
        errors=choices.errors,
        scopes=SCOPES,
        lengths=lengths(visit.now),
    )


def check_choices(posted: Form) -> Choices:
    """Read the confirm page's fields and say what is missing, each beside its field."""
    known = {value for value, _ in SCOPES}
    name, ticked = posted.text("name").strip(), tuple(scope for scope in posted.all("job_scopes") if scope in known)
    errors: dict[str, str] = {}
    if not 1 <= len(name) <= 64:
        errors["name"] = "Give the worker a name of 1 to 64 characters."
    if not ticked:
        errors["job_scopes"] = "Tick at least one kind of job, else it can run nothing."
    if not posted.ticked("fingerprint_confirmed"):
        errors["fingerprint_confirmed"] = "Compare the four words and tick the box, or deny the pairing."
    return Choices(name, ticked, chosen_length(posted), posted.ticked("extend_while_healthy"), errors)


async def _approve(visit: Visit, posted: Form) -> Response:
    pairing_id = visit.request.path_params["pairing_id"]
    choices = check_choices(posted)
    if not choices.errors:
        approval = PairingApproval(
            name=choices.name,
            job_scopes=choices.ticked,
            authorization_s=choices.chosen_s,
            fingerprint_confirmed=True,
            extend_while_healthy=choices.extend,
        )
        try:
            worker = await visit.services.pairings.approve(visit.person, pairing_id, approval, posted.act_id)
        except ProblemError as error:
            if error.code != "name-taken":
                raise
            choices.errors["name"] = "A worker of this name exists; choose another name."
        else:
            approved = f"{worker.name} is approved. It connects as soon as Stoker runs there."
            return go("/workers", Notice("good", approved))
    found = await visit.services.pairings.found(visit.person, pairing_id, client_ip(visit.request))
    return _confirm(visit, found, posted.text("user_code"), choices)


async def _deny(visit: Visit, posted: Form) -> Response:
    await visit.services.pairings.deny(visit.person, visit.request.path_params["pairing_id"])
    return go("/workers", Notice("good", "The pairing was denied. The workstation is told so."))


code_page = page(_code_page)
look_up = form(_look_up, step_up=True)
approve = form(_approve, step_up=True)
deny = form(_deny)
