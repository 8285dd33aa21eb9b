"""Log-in, log-out and the theme: what a person may do without doing anything to a worker or job."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coordinator.api.auth import check_origin, clear_login_cookie, client_ip, current_person, set_login_cookie
from coordinator.api.bodies import FROM_STRANGERS_BYTES
from coordinator.api.context import services_of
from coordinator.console.doors import Form, form, read_form
from coordinator.console.pages import THEME_COOKIE, THEMES, Visit, go, local_path, problem_page, render
from coordinator.console.words import sentence
from worker_core.wire.problems import ProblemError

YEAR_S = 365 * 86400
WRONG = "E-mail or password is wrong."


async def root(request: Request) -> Response:
    """Send to the first page."""
    return RedirectResponse("/workers", status_code=303)


async def log_in_page(request: Request) -> Response:
    """Show the log-in form, or go on when a person is signed in already."""
    target = local_path(request.query_params.get("next"))
    if await current_person(request) is not None:
        return RedirectResponse(target, status_code=303)
    return _log_in_form(request, target)


async def log_in(request: Request) -> Response:
    """Take e-mail and password; a wrong one of either gets the same answer after the same time."""
    services = services_of(request)
    try:
        posted = await read_form(request, FROM_STRANGERS_BYTES)
        check_origin(request)
    except ProblemError as error:
        return problem_page(request, error.problem, None)
    target, email = local_path(posted.text("next")), posted.text("email").strip()
    try:
        account = await services.people.authenticate(email, posted.text("password"), client_ip(request))
    except ProblemError as error:
        wrong = WRONG if error.code == "bad-credentials" else sentence(str(error))
        return _log_in_form(request, target, email=email, wrong=wrong, status=error.problem.status)
    response = RedirectResponse(target, status_code=303)
    set_login_cookie(response, request, await services.logins.start(account))
    return response


def _log_in_form(request: Request, target: str, *, email: str = "", wrong: str = "", status: int = 200) -> Response:
    context = {"next": target, "email": email, "wrong": wrong, "site": services_of(request).public_url}
    return render(request, "login.html", context, person=None, status=status)


async def _log_out(visit: Visit, posted: Form) -> Response:
    await visit.services.logins.end(visit.person)
    response = RedirectResponse("/login", status_code=303)
    clear_login_cookie(response, visit.request)
    return response


async def _choose_theme(visit: Visit, posted: Form) -> Response:
    response = go(local_path(posted.text("back")))
    theme = posted.text("theme")
    if theme in THEMES:
        response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, httponly=True, samesite="lax")
    return response


log_out = form(_log_out)
choose_theme = form(_choose_theme)
