"""The console in a real browser: no error, no violation, readable, live, and back after the coordinator was gone."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

PATHS = (
    "/workers",
    "/pair",
    "/jobs",
    "/jobs/new",
    "/jobs/{job}",
    "/sessions",
    "/sessions/{job}",
    "/sessions/{job}/logs",
    "/sessions/{job}/artifacts",
    "/sessions/{job}/benchmarks",
    "/sessions/{job}/config",
    "/sessions/{job}/values?key=train/loss",
    "/workers/{worker}/revoke",
    "/workers/{worker}/renew",
)
IN_DARK = ("/workers", "/jobs", "/jobs/new", "/sessions/{job}", "/sessions/{job}/logs", "/sessions/{job}/artifacts")
AXE_OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
pytestmark = pytest.mark.xdist_group("console-browser")


@pytest.mark.parametrize(("scheme", "paths"), [("light", PATHS), ("dark", IN_DARK)])
def test_every_page_is_free_of_errors_violations_and_barriers_and_fits_a_narrow_screen(
    open_page: Callable[..., Any], coordinator: Any, session: Any, cookie: Any, scheme: str, paths: tuple[str, ...]
) -> None:
    watched = open_page(coordinator.url, cookie, color_scheme=scheme)
    page = watched.page
    found: list[str] = []
    for path in paths:
        watched.open(path.format(job=session.job_id, worker=session.worker.worker_id))
        expect(page.locator("#live")).to_have_attribute("data-live", "on")
        if path == "/sessions/{job}":
            expect(page.locator(".chart canvas").first).to_be_visible()
        result = Axe().run(page, options=AXE_OPTIONS)
        found += [f"{path}: {fault['id']} {fault['nodes'][0]['html']}" for fault in result.response["violations"]]
        page.set_viewport_size({"width": 320, "height": 700})
        if page.evaluate("document.documentElement.scrollWidth") > 320:
            found.append(f"{path}: scrolls sideways at 320 pixels")
        page.set_viewport_size({"width": 1280, "height": 800})
        watched.assert_clean()
    assert found == []


def test_the_log_in_page_is_free_of_errors_and_barriers(open_page: Callable[..., Any], coordinator: Any) -> None:
    watched = open_page(coordinator.url)
    page = watched.open("/login")
    assert Axe().run(page, options=AXE_OPTIONS).response["violations"] == []
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Password")).to_have_attribute("type", "text")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_title(re.compile("Training Workers"))
    watched.assert_clean()


def test_every_control_has_an_id_of_its_own_and_focus_survives_an_update(
    open_page: Callable[..., Any], coordinator: Any, ada: Any, session: Any, cookie: Any
) -> None:
    worker = coordinator.worker(ada)
    watched = open_page(coordinator.url, cookie)
    page = watched.open("/workers")
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    controls = "[data-region] :is(a, button, input:not([type=hidden]), select):not([id])"
    without = page.locator(controls).count()
    assert without == 0
    button = page.locator(f"#{worker.worker_id}-renew")
    button.focus()
    ada.send("POST", f"/v1/workers/{worker.worker_id}/drain", {})
    expect(page.locator(f"#{worker.worker_id}")).to_contain_text("has not confirmed")
    expect(button).to_be_focused()
    watched.assert_clean()


def test_lines_and_names_that_try_to_be_more_than_text_stay_text(
    open_page: Callable[..., Any], coordinator: Any, session: Any, cookie: Any, nasty: tuple[str, ...]
) -> None:
    watched = open_page(coordinator.url, cookie)
    page = watched.open(f"/sessions/{session.job_id}/logs")
    log = page.locator("#log")
    expect(log).to_contain_text(nasty[0])
    expect(log).to_contain_text(nasty[2])
    expect(log).to_contain_text("{{ 7*7 }}")
    assert page.title().endswith("Stoker")
    assert log.locator("script, img, svg, a").count() == 0
    assert "\u202e" not in log.inner_text()
    watched.assert_clean()


def test_new_points_and_lines_arrive_without_a_reload(
    open_page: Callable[..., Any], coordinator: Any, session: Any, cookie: Any
) -> None:
    watched = open_page(coordinator.url, cookie)
    page = watched.open(f"/sessions/{session.job_id}")
    figure = page.locator("figure[data-chart='rollout/ep_rew_mean']")
    expect(figure.locator("canvas")).to_be_visible()
    page.evaluate("window.stays = true")
    session.metric(200_000, rollout__ep_rew_mean=499.5, fresh__metric=1.0)
    expect(figure.locator("[data-summary]")).to_contain_text("499.5 at step 200,000")
    expect(page.locator("#group-fresh")).to_be_attached()
    page.goto(f"{coordinator.url}/sessions/{session.job_id}/logs")
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    session.line("a line that came later")
    expect(page.locator("#log")).to_contain_text("a line that came later")
    watched.assert_clean()


def test_a_plot_has_a_name_and_is_read_with_the_keyboard(
    open_page: Callable[..., Any], coordinator: Any, session: Any, cookie: Any
) -> None:
    watched = open_page(coordinator.url, cookie)
    page = watched.open(f"/sessions/{session.job_id}")
    plot = page.get_by_role("application", name=re.compile("^Loss"))
    expect(plot.locator("canvas")).to_be_visible()
    plot.focus()
    figure = page.locator("figure[data-chart='train/loss']")
    readout = figure.locator("[data-readout]")
    page.keyboard.press("Home")
    expect(readout).to_have_text("Step 0 · 62")
    page.keyboard.press("ArrowRight")
    expect(readout).to_have_text(re.compile(r"^Step 512 · 60\.52"))
    for _ in range(2):
        page.keyboard.press("+")
    expect(figure.get_by_role("button", name="Reset zoom")).to_be_visible()
    session.metric(300_000, train__loss=1.25)
    expect(figure.locator("[data-summary]")).to_contain_text("1.25 at step 300,000")
    expect(figure.get_by_role("button", name="Reset zoom")).to_be_visible()
    page.keyboard.press("0")
    expect(figure.get_by_role("button", name="Reset zoom")).to_be_hidden()
    figure.get_by_role("link", name="Show as table").click()
    expect(figure.get_by_role("cell", name="NaN").first).to_be_visible()
    watched.assert_clean()


def test_stop_opens_a_dialog_that_names_the_job_and_escape_closes_it(
    open_page: Callable[..., Any], coordinator: Any, session: Any, cookie: Any
) -> None:
    watched = open_page(coordinator.url, cookie)
    page = watched.open("/workers")
    stop = page.locator(f"#{session.worker.worker_id}-stop")
    stop.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cartpole")
    expect(dialog).to_contain_text("checkpoint")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(stop).to_be_focused()
    watched.assert_clean()


def test_a_button_acts_without_a_reload_and_says_what_it_did(
    open_page: Callable[..., Any], coordinator: Any, ada: Any, cookie: Any
) -> None:
    worker = coordinator.worker(ada)
    watched = open_page(coordinator.url, cookie)
    page = watched.open("/workers")
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    page.evaluate("window.stays = true")
    page.locator(f"#{worker.worker_id}-drain").click()
    expect(page.locator("#notices")).to_contain_text("takes no new one")
    expect(page.locator(f"#{worker.worker_id}-resume")).to_be_visible()
    assert page.evaluate("window.stays") is True
    watched.assert_clean()


def test_live_updates_can_be_paused(open_page: Callable[..., Any], coordinator: Any, ada: Any, cookie: Any) -> None:
    worker = coordinator.worker(ada)
    page = open_page(coordinator.url, cookie).open("/workers")
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    pause = page.get_by_role("button", name="Pause live updates")
    pause.click()
    expect(page.locator("#live-line")).to_contain_text("Paused")
    ada.send("POST", f"/v1/workers/{worker.worker_id}/drain", {})
    time.sleep(1)
    expect(page.locator(f"#{worker.worker_id}-drain")).to_be_visible()
    pause.click()
    expect(page.locator(f"#{worker.worker_id}-resume")).to_be_visible()


def test_it_says_when_the_coordinator_is_gone_and_recovers_without_a_reload(
    open_page: Callable[..., Any], serve: Callable[..., Any], sign_in: Any
) -> None:
    first = serve()
    with sign_in(first.url) as person:
        page = open_page(first.url, dict(person.cookies)).open("/workers")
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    page.evaluate("window.stays = true")
    first.kill()
    expect(page.locator("#live-line")).to_contain_text("Reconnecting…")
    serve(first.port)
    expect(page.locator("#live")).to_have_attribute("data-live", "on")
    assert page.evaluate("window.stays") is True


def test_points_that_a_newer_attempt_hides_are_shown_on_demand(
    open_page: Callable[..., Any],
    coordinator: Any,
    ada: Any,
    cookie: Any,
    start_training: Callable[..., Any],
    go_on_training: Callable[..., Any],
) -> None:
    worker = coordinator.worker(ada)
    first = start_training(coordinator, worker, name="resumed")
    for step in range(20):
        first.metric(step * 100, train__loss=20.0 - step / 2)
    released = {"epoch": first.epoch, "reason": "stopped"}
    assert worker.call("POST", f"/v1/attempts/{first.attempt_id}/release", released).status_code == 204
    second = go_on_training(worker)
    for step in range(10, 25):
        second.metric(step * 100, train__loss=12.0 - step / 4)
    watched = open_page(coordinator.url, cookie)
    page = watched.open(f"/sessions/{first.job_id}")
    series = f"/sessions/{first.job_id}/series?key=train%2Floss"
    read = "(address) => fetch(address).then((answer) => answer.json())"
    assert page.evaluate(read, series)["superseded"] == []
    page.get_by_role("link", name="Show superseded").click()
    expect(page).to_have_url(re.compile("superseded=1"))
    expect(page.locator("figure[data-chart='train/loss'] canvas")).to_be_visible()
    (faint,) = page.evaluate(read, f"{series}&superseded=1")["superseded"]
    assert (faint["attempt"], faint["x"]) == (1, list(range(1000, 2000, 100)))
    assert faint["last"][0] == 15.0
    page.get_by_role("link", name="Hide superseded").click()
    expect(page).not_to_have_url(re.compile("superseded=1"))
    watched.assert_clean()
