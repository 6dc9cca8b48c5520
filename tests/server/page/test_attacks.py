"""The page under attack in a real Chromium: script in every text, and pages of other sites."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.server.page.conftest import GUARD, Start
from tests.server.page.scenario import make_model, write_project

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = [pytest.mark.req("WEB-1", "SRV-3"), pytest.mark.xdist_group("browser")]

SCRIPT = "\"'><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>"
PLAIN_KEYS = (
    "id",
    "type",
    "kind",
    "role",
    "mode",
    "status",
    "state",
    "standing",
    "next",
    "strategy",
)
"""Values that the page compares; a server never takes them from a text."""


def _poison(value: Any, key: str = "") -> Any:
    """Return a document with script in each of its texts."""
    match value:
        case dict():
            return {name: _poison(inner, name) for name, inner in value.items()}
        case list():
            return [_poison(inner, key) for inner in value]
        case str() if value and not key.endswith(PLAIN_KEYS):
            return value + SCRIPT
        case _:
            return value


def _poison_answer(route: "Route") -> None:
    answer = route.fetch(timeout=GUARD)
    if "json" not in answer.headers.get("content-type", ""):
        route.fulfill(response=answer)
        return
    route.fulfill(response=answer, body=json.dumps(_poison(answer.json())))


def test_no_text_of_an_answer_becomes_markup_in_any_view(start: Start, tmp_path: Path) -> None:
    write_project(tmp_path / "project", lines=30)
    site = start(make_model(reads=2), window=60_000)
    session = site.create(name="one")
    for number in range(4):
        site.say(session, f"Check part {number}")
    site.call("POST", f"/sessions/{session}/context/compact", {})
    # Streams are left alone: they would never end here, and show the same blocks.
    site.context.route(lambda url: "/api/" in url and "/events" not in url, _poison_answer)

    page = site.open(f"/#/s/{session}")
    page.get_by_text("onerror").first.wait_for()
    page.locator("[data-mark]").first.wait_for()
    page.keyboard.press("]")
    page.locator(".report").get_by_text("onerror").first.wait_for()
    page.keyboard.press("Escape")
    for tab in ("journal", "agents", "simulator", "chat"):
        page.locator(f"#tab-{tab}").click()
        page.locator(f"#view[aria-labelledby=tab-{tab}] > *").first.wait_for()
        if tab in ("journal", "chat"):
            page.locator("#view").get_by_text("onerror").first.wait_for()
    page.locator("input[type=search]").first.fill("part")
    page.locator("mark, .excerpt, .session").get_by_text("onerror").first.wait_for()

    assert page.locator("img[src=x], svg[onload], body script").count() == 0
    assert page.evaluate("document.documentElement.innerHTML.includes('<img src=')") is False
    # The page refreshes its list: a request may be under way when the test ends.
    site.context.unroute_all(behavior="ignoreErrors")


@asynccontextmanager
async def _serve_other_site() -> AsyncGenerator[int, None]:
    """Serve an empty page at another port of the same host; browsers send it the same cookies."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><p>Other</p>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


TRY_ALL = """async ([target, session]) => {
  const api = `${target}/api/v1`;
  const own = { credentials: "include" };
  const prompt = { ...own, method: "POST", mode: "no-cors", body: '{"text":"hi"}' };
  const tried = {};
  const attempt = async (name, work) => {
    try { tried[name] = await work(); } catch (error) { tried[name] = "refused"; }
  };
  const at = `${api}/sessions/${session}`;
  await attempt("read", async () => (await fetch(at, own)).text());
  await attempt("prompt", async () => (await fetch(`${at}/prompts`, prompt)).type);
  await attempt("socket", () => new Promise((resolve, reject) => {
    const socket = new WebSocket(`${at.replace("http", "ws")}/socket`);
    socket.onopen = () => resolve("open");
    socket.onerror = reject;
  }));
  await attempt("events", () => new Promise((resolve, reject) => {
    const events = new EventSource(`${at}/events`, { withCredentials: true });
    events.onopen = () => resolve("open");
    events.onerror = reject;
  }));
  await attempt("frame", () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.src = target;
    frame.onload = () => {
      try { resolve(frame.contentDocument === null ? "refused" : "blank"); }
      catch (error) { resolve("refused"); }
    };
    document.body.append(frame);
  }));
  return tried;
}"""


def test_a_page_of_another_site_reads_and_changes_nothing(start: Start) -> None:
    site = start()
    session = site.create()
    page = site.open()
    assert page.evaluate("document.cookie") == ""
    with site.portal.wrap_async_context_manager(_serve_other_site()) as port:
        other = site.context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        tried = other.evaluate(TRY_ALL, [site.api.server.url, session])

    # The answer to the prompt cannot be seen from there; the history says what became of it.
    assert tried == {
        "read": "refused",
        "prompt": "refused",
        "socket": "refused",
        "events": "refused",
        "frame": "refused",
    }
    history = json.dumps(site.call("GET", f"/sessions/{session}/history"))
    assert '"hi"' not in history
