"""The pictures of the web page, taken in Chromium: `python -m scripts.pictures.page`.

Needs the package `playwright` and the programs `chromium` and, for small files, `pngquant`.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from tests.server.page.conftest import ARGUMENTS, Site, Start
from tests.server.page.scenario import make_model, write_project

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"
PROMPTS = (
    "Reports with empty fields fail. Read the modules that touch a record, and say why.",
    "And the modules that write them?",
    "Who calls the parser?",
    "Check the storage for the same mistake.",
    "What does a retry do with a bad record?",
    "Go through the configuration.",
)


def take_pictures() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the PNG of each picture."""
    chromium = shutil.which("chromium")
    with TemporaryDirectory() as name, sync_playwright() as playwright, ExitStack() as stack:
        folder = Path(name) / "work"
        folder.mkdir()
        write_project(folder / "project", lines=70)
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        stack.callback(browser.close)
        site = Start(browser, folder, stack)(
            make_model(reads=3, findings=24), window=64_000, permission_mode="acceptEdits"
        )
        session = _play(site)
        yield "page", _light(site, session)
        yield "page-report", _report(site, session)
        yield "page-journal", _journal(site, session)
        yield "page-phone", _phone(site, session)


def _play(site: Site) -> str:
    """Play a session with a clearing of results, two compactions and an undo."""
    session = site.create(name="Reports with empty fields")
    for name in ("Retry of failed uploads", "Release notes for 0.4", "Why is the import slow?"):
        site.say(site.create(name=name), "What changed?")
    context = f"/sessions/{session}/context"
    for prompt in PROMPTS:
        site.say(session, prompt)
    site.call("POST", f"{context}/compact", {})
    site.call("POST", f"{context}/undo", {})
    for prompt in PROMPTS[:4]:
        site.say(session, prompt)
    site.call("POST", f"{context}/compact", {"instructions": "Keep the decisions."})
    for prompt in PROMPTS[:3]:
        site.say(session, prompt)
    site.say(session, "Fix it, please.")
    return session


def _light(site: Site, session: str) -> bytes:
    page = site.open(f"/#/s/{session}")
    page.set_viewport_size({"width": 1280, "height": 800})
    _wait(page)
    return page.screenshot()


def _report(site: Site, session: str) -> bytes:
    page = site.open(f"/#/s/{session}")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="dark")
    _wait(page)
    page.locator(".mark.compaction:not(.undone) button").last.click()
    page.locator(".report .entry").first.wait_for()
    page.mouse.move(520, 240)
    page.locator(".tooltip").wait_for()
    return page.screenshot()


def _journal(site: Site, session: str) -> bytes:
    page = site.open(f"/#/s/{session}/journal")
    page.set_viewport_size({"width": 1280, "height": 720})
    _wait(page)
    page.locator(".rows .entry").first.wait_for()
    page.locator(".rows").hover()
    page.mouse.wheel(0, -1_020)
    page.locator(".rows .entry.compaction").last.wait_for()
    return page.screenshot()


def _phone(site: Site, session: str) -> bytes:
    page = site.open(f"/#/s/{session}")
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 390, "height": 780})
    _wait(page)
    return page.screenshot()


def _wait(page: Page) -> None:
    page.locator("[data-mark]").first.wait_for()
    page.locator(".connection.live").wait_for()


def _shrink(picture: bytes) -> bytes:
    """Return the picture with fewer colours, if pngquant is installed."""
    program = shutil.which("pngquant")
    if program is None:
        return picture
    done = subprocess.run([program, "-"], input=picture, capture_output=True, check=True)  # noqa: S603 - found on the PATH
    return done.stdout


def main() -> None:
    """Write every picture."""
    for name, picture in take_pictures():
        path = FOLDER / f"{name}.png"
        path.write_bytes(_shrink(picture))
        sys.stdout.write(f"{path} {path.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    main()
