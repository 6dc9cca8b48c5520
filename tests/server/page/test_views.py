"""The page on long sessions, on a phone, in the dark, and for assistive technology."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.core.entries import Body, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.sdk.session_store import project_store
from tests.server.page.conftest import Site, Start
from tests.server.page.scenario import make_model, write_project

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser")]

_LONG = SessionId("long-session")


def _make_bodies(turns: int) -> Iterator[Body]:
    yield SetupChanged(model=ModelFacts(name="gpt-4o", window=1_000_000))
    for turn in range(turns):
        call = ToolCall(call_id=CallId(f"call_{turn}"), name="Read", arguments='{"path": "a.py"}')
        spent = Usage(input_tokens=1_000 + 40 * turn, output_tokens=40)
        yield MessageAdded(message=user(f"Question {turn}"))
        yield MessageAdded(message=assistant("I read **it**.", call), usage=spent)
        yield MessageAdded(message=tool_result(call, f"line {turn}\n" * 5))
        yield MessageAdded(message=assistant(f"Answer {turn}: done."), usage=spent)


async def _store_long_session(folder: Path, turns: int) -> None:
    project = folder / "project"
    environ = {"HOME": str(folder), "CLEW_HOME": str(folder / "clew")}
    place = project_store(project, environ)
    entries = [
        Entry(id=EntryId(number), at=1_700_000_000.0 + number, body=body)
        for number, body in enumerate(_make_bodies(turns), 1)
    ]
    record = SessionRecord(id=_LONG, cwd=str(project), created_at=1.0, updated_at=2.0, name="Long")
    try:
        await place.store.create(record)
        await place.store.append(_LONG, entries)
    finally:
        await place.store.aclose()


def test_a_session_of_5000_entries_opens_with_only_its_end(start: Start, tmp_path: Path) -> None:
    site = start()
    site.portal.call(_store_long_session, tmp_path, 1_250)
    page = site.open(f"/#/s/{_LONG}")
    page.get_by_text("Answer 1249: done.").wait_for()
    page.locator(".layer[d]").first.wait_for()
    assert page.locator("*").count() < 4_000

    page.locator("[role=log]").focus()
    first = page.locator(".prompt-text").first
    while int(first.inner_text().removeprefix("Question ")) > 1_150:
        page.keyboard.press("Home")
        page.locator(".loading-older").wait_for(state="detached")
    assert page.locator(".block").count() < 400

    page.keyboard.press("2")
    page.get_by_role("button", name="all 5,002").wait_for()
    page.locator(".rows").get_by_text("Answer 1249").wait_for()
    assert page.locator(".rows .entry").count() < 80
    page.locator(".rows").focus()
    page.keyboard.press("Home")
    page.get_by_text("Question 0").wait_for()


def test_the_journal_is_complete_after_a_request_has_failed(start: Start, tmp_path: Path) -> None:
    site = start()
    site.portal.call(_store_long_session, tmp_path, 200)
    failures = [0]

    def fail_once(route: "Route") -> None:
        failures[0] += 1
        route.fulfill(status=503, body="busy")

    site.context.route(lambda url: "/entries?after=5" in url, fail_once, times=1)
    page = site.open(f"/#/s/{_LONG}/journal")

    page.locator(".rows").get_by_text("Answer 199").wait_for()
    assert failures == [1]
    site.complaints[:] = [one for one in site.complaints if "503" not in one]


def _play(site: Site) -> "Page":
    """Open a session with some answers and a compaction."""
    session = site.create()
    for number in range(4):
        site.say(session, f"Check part {number}")
    site.call("POST", f"/sessions/{session}/context/compact", {})
    page = site.open(f"/#/s/{session}")
    page.locator("[data-mark]").first.wait_for()
    return page


def test_everything_fits_on_a_phone(start: Start, tmp_path: Path) -> None:
    write_project(tmp_path / "project", lines=30)
    site = start(make_model(reads=2), width=390, window=60_000)
    page = _play(site)

    for tab in ("journal", "agents", "simulator", "chat"):
        page.click(f"#tab-{tab}")
        page.locator(f"#view[aria-labelledby=tab-{tab}] > *").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("document.querySelector('main').scrollWidth") <= 390
    page.get_by_label("Sessions", exact=True).and_(page.locator("button")).click()
    page.locator(".sidebar.open").wait_for()
    page.get_by_label("Close the list").click()
    page.locator("[data-mark]").first.click()
    page.locator(".report .summary-text").wait_for()
    assert page.locator(".report").bounding_box() == {"x": 0, "y": 0, "width": 390, "height": 800}


def test_axe_finds_nothing_to_improve(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("axe_playwright_python")
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    write_project(tmp_path / "project", lines=30)
    site = start(make_model(reads=2), window=60_000)
    page = _play(site)
    page.evaluate(axe)

    def check(what: str) -> None:
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        page.emulate_media(color_scheme="dark")
        found += page.evaluate("axe.run(document, {runOnly: ['color-contrast']})")["violations"]
        told = [
            (one["id"], one["help"], [node["target"] for node in one["nodes"]][:3]) for one in found
        ]
        assert told == [], what

    check("chat")
    page.locator("[data-mark]").first.click()
    page.locator(".report .summary-text").wait_for()
    check("loss report")
    for tab in ("journal", "agents", "simulator"):
        page.click(f"#tab-{tab}")
        page.locator(f"#view[aria-labelledby=tab-{tab}] > *").first.wait_for()
        check(tab)
    page.keyboard.press("?")
    check("help")
