"""Take the documentation's pictures of the console from a running coordinator with a real training session.

For example beside ``stoker demo --keep``, which prints the address and the log-in:
``python tests/coordinator/console/screenshots.py --url URL --email E --password P --out docs/images``
"""

import argparse
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
SIZE: ViewportSize = {"width": 1200, "height": 860}


def main() -> int:
    """Log in, open each page and save its picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--email", required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--job", help="job id; default: the newest training session")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport=SIZE, color_scheme=chosen.theme, device_scale_factor=1.5)
        page = context.new_page()
        log_in(page, chosen.url, chosen.email, chosen.password)
        for name, path in pages_of(page, chosen.url, chosen.job).items():
            page.goto(chosen.url + path)
            expect(page.locator("#live")).to_have_attribute("data-live", "on")
            if name == "session":
                expect(page.locator(".chart canvas").first).to_be_visible()
                page.wait_for_timeout(1500)
            page.screenshot(path=chosen.out / f"console-{name}.png", full_page=name == "session")
        browser.close()
    return 0


def log_in(page: Page, url: str, email: str, password: str) -> None:
    """Log in by the form."""
    page.goto(f"{url}/login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Training Workers")).to_be_visible()


def pages_of(page: Page, url: str, job: str | None) -> dict[str, str]:
    """Return the pages to take, by name."""
    page.goto(f"{url}/sessions")
    session = f"/sessions/{job}" if job else page.locator("tbody th a").first.get_attribute("href") or "/sessions"
    return {"workers": "/workers", "jobs": "/jobs", "session": session, "benchmarks": f"{session}/benchmarks"}


if __name__ == "__main__":
    raise SystemExit(main())
