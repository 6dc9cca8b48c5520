"""A real browser, and a server with a scripted model, for the tests of the page."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.server.access import AccessOptions, RequestLimits
from clew.testing.server import ResponseScript
from tests.server.places import Api, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
)
GUARD = 60_000
"""Milliseconds after which a test that waits for the page fails."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One browser for the tests of a module."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield started
        started.close()


@dataclass
class Site:
    """A running server and the tabs that show it; what the browser complains about is kept."""

    api: Api
    portal: BlockingPortal
    context: "BrowserContext"
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str = "/") -> "Page":
        """Open a tab that is signed in."""
        page = self.context.new_page()
        page.set_default_timeout(GUARD)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        if not self.context.cookies():
            access = self.api.server.state.access
            assert access is not None
            page.goto(self.api.server.url + access.make_login_path())
        page.goto(f"{self.api.server.url}{address}")
        page.wait_for_selector(".app")
        return page

    def call(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """Call a route as another client would."""
        return self.portal.call(lambda: self.api.call(method, path, body, **query))

    def create(self, **fields: Any) -> str:
        """Create a session and return its id."""
        return str(self.call("POST", "/sessions", fields)["session_id"])

    def say(self, session: str, text: str) -> None:
        """Send a prompt and wait until it is answered."""
        self.portal.call(_say, self.api, session, text)

    def _note(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


async def _say(api: Api, session: str, text: str) -> None:
    url = f"{api.server.url}/api/v1/sessions/{session}/prompts"
    headers = {"Accept": "text/event-stream"}
    async with api.http.post(url, json={"text": text}, headers=headers) as response:
        assert response.status < 300, await response.text()
        await response.read()


class Start:
    """Starts servers for a test, and checks at its end that the browser did not complain."""

    def __init__(self, browser: "Browser", folder: Path, stack: ExitStack) -> None:
        self._browser = browser
        self._folder = folder
        self._stack = stack
        self.sites: list[Site] = []

    def __call__(self, *answers: ResponseScript, width: int = 1280, **spec: Any) -> Site:
        """Start a server and a browser profile.

        Args:
            answers: What the model answers.
            width: Of the window, in pixels.
            spec: Fields of `SessionSpec`.
        """
        portal = self._stack.enter_context(start_blocking_portal())
        running: AbstractContextManager[Api] = portal.wrap_async_context_manager(
            serving(
                self._folder,
                *answers,
                spec=spec,
                access=AccessOptions(
                    token="t" * 43, limits=RequestLimits(requests_per_second=1_000)
                ),
            )
        )
        api = self._stack.enter_context(running)
        api.http.headers["Authorization"] = f"Bearer {'t' * 43}"
        context = self._browser.new_context(viewport={"width": width, "height": 800})
        self._stack.callback(context.close)
        self.sites.append(Site(api, portal, context))
        return self.sites[-1]


@pytest.fixture
def start(browser: "Browser", tmp_path: Path) -> Iterator[Start]:
    """Start servers; no console error and no violation of the content policy is accepted."""
    with ExitStack() as stack:
        starter = Start(browser, tmp_path, stack)
        yield starter
    for site in starter.sites:
        assert site.complaints == []
