"""The page in a real Chromium, against a real server with a scripted model."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.testing.fake_openai import DONE, ScriptedResponse, Stall, delta, text_response, usage
from tests.server.page.conftest import Site, Start
from tests.server.page.scenario import make_model, reply, write_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.req("WEB-1"), pytest.mark.xdist_group("browser")]


def _send(page: "Page", text: str) -> None:
    page.wait_for_selector("#prompt:not([disabled])")
    if not page.locator("#prompt:focus").count():
        page.keyboard.press("i")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def _wait_until_idle(page: "Page", answers: int) -> None:
    """Wait for so many answers and for the end of the run."""
    page.locator(".block.answer:not(.live)").nth(answers - 1).wait_for()
    page.locator(".composer .stop").wait_for(state="detached")


def _read_gauge(page: "Page") -> int:
    return int(page.get_attribute(".gauge [role=meter]", "aria-valuenow") or "0")


def test_a_session_is_used_with_the_keyboard_alone(start: Start, tmp_path: Path) -> None:
    write_project(tmp_path / "project", lines=30)
    site = start(make_model(reads=2), window=60_000)
    page = site.open()

    page.keyboard.press("o")
    for number in range(4):
        _send(page, f"Check part {number}")
        _wait_until_idle(page, number + 1)
        page.keyboard.press("Escape")
    full = _read_gauge(page)
    assert full > 4_000
    assert page.locator("[data-mark]").count() == 0

    page.keyboard.press("k")
    page.locator("dialog .outlook").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("dialog").wait_for(state="detached")
    page.locator(".mark.compaction [data-mark]").wait_for()
    page.locator(f'.gauge [role=meter]:not([aria-valuenow="{full}"])').wait_for()
    assert _read_gauge(page) < full

    page.keyboard.press("]")
    report = page.locator(".report")
    report.get_by_text("Errors name the line").wait_for()
    report.locator(".fate .entry").first.wait_for()
    page.keyboard.press("u")
    page.locator(".mark.undo button").wait_for()
    page.locator(f'.gauge [role=meter][aria-valuenow="{full}"]').wait_for()
    report.get_by_text("This change was undone").wait_for()
    page.keyboard.press("Escape")
    report.wait_for(state="detached")

    page.keyboard.press("t")
    page.keyboard.press("ArrowLeft")
    page.locator(".tooltip").wait_for()
    page.keyboard.press("2")
    page.locator(".rows .entry").first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard").wait_for()
    page.keyboard.press("Escape")


def test_a_reload_in_the_middle_of_an_answer_loses_nothing(start: Start) -> None:
    stall = Stall()
    words = [f"word{number} " for number in range(40)]
    first = [delta(reasoning_content="A thought. "), *(delta(content=one) for one in words[:20])]
    rest = [*(delta(content=one) for one in words[20:]), delta("stop"), usage(50, 40), DONE]
    site = start(ScriptedResponse(steps=[*first, stall, *rest]))
    staying = site.open()
    staying.keyboard.press("o")
    _send(staying, "Count")
    staying.get_by_text("word19").wait_for()
    session = staying.url.rpartition("/")[2]
    late = site.open(f"/#/s/{session}")
    late.get_by_text("word19").wait_for()
    late.reload()
    late.get_by_text("word19").wait_for()

    site.portal.call(stall.release)
    for page in (staying, late):
        _wait_until_idle(page, 1)
        assert page.locator(".block.answer").inner_text() == "".join(words).strip()
        assert page.locator(".block.thinking").count() == 1
        assert page.locator(".block.prompt .prompt-text").all_inner_texts() == ["Count"]


def test_two_tabs_show_the_same_and_the_first_answer_to_a_question_counts(start: Start) -> None:
    site = start(
        reply("", ("Write", {"file_path": "new.txt", "content": "hello"}), tokens=90),
        text_response("Written."),
    )
    one = site.open()
    one.keyboard.press("o")
    _send(one, "Write a file")
    one.locator(".question:focus").wait_for()
    session = one.url.rpartition("/")[2]
    two = site.open(f"/#/s/{session}")
    two.get_by_role("heading", name="Allow Write?").wait_for()

    two.keyboard.press("y")
    for page in (one, two):
        page.locator(".question").wait_for(state="detached")
        _wait_until_idle(page, 1)
        assert page.locator(".block.tool.success").count() == 1
    assert (site.api.project / "new.txt").read_text() == "hello"
    one.locator("#prompt:focus").wait_for()
    texts = [page.locator(".block.answer").all_inner_texts() for page in (one, two)]
    assert texts == [["Written."], ["Written."]]


def test_a_prompt_waits_in_the_queue_and_a_run_is_aborted(start: Start) -> None:
    stall = Stall()
    site = start(ScriptedResponse(steps=[delta(content="I begin"), stall]), text_response("Next."))
    page = site.open()
    page.keyboard.press("o")
    _send(page, "First")
    page.get_by_text("I begin").wait_for()
    _send(page, "Second")
    page.locator(".queued-text", has_text="Second").wait_for()
    page.get_by_label("Cancel the waiting prompt").click()
    page.locator(".queued").wait_for(state="detached")
    page.get_by_label("Abort the run").click()
    page.get_by_text("interrupted; what has arrived is kept").wait_for()
    _send(page, "Third")
    page.get_by_text("Next.").wait_for()


def test_text_never_becomes_markup(start: Start) -> None:
    attack = "<img src=x onerror=alert(1)><script>alert(2)</script>[x](javascript:alert(3))"
    site = start(
        reply("", ("Write", {"file_path": "x", "content": attack}), tokens=90, thinking=attack),
        text_response(f"{attack}\n\n```html\n{attack}\n```\n"),
    )
    session = site.create(name=attack)
    page = site.open(f"/#/s/{session}")
    _send(page, attack)
    page.locator(".question button.primary").click()
    _wait_until_idle(page, 1)
    page.click("#tab-journal")
    page.locator(".rows .entry").first.wait_for()
    assert page.locator("main img, main script, [href^=javascript]").count() == 0
    assert re.search(r"onerror", page.locator(".rows").inner_text())


def test_a_tab_whose_connection_was_cut_catches_up(start: Start) -> None:
    site = start(text_response("First."), text_response("Second."), text_response("Third."))
    session = site.create()
    page = site.open(f"/#/s/{session}")
    page.locator(".connection.live").wait_for()
    for number, name in enumerate(("one", "two", "three"), 1):
        site.portal.call(_cut_streams, site)
        site.say(session, name)
        _wait_until_idle(page, number)
    assert page.locator(".block.answer").all_inner_texts() == ["First.", "Second.", "Third."]
    assert page.locator(".block.prompt .prompt-text").all_inner_texts() == ["one", "two", "three"]
    site.complaints[:] = [one for one in site.complaints if "net::ERR" not in one]


def _cut_streams(site: Site) -> None:
    for request in site.api.server.state.streams._open.values():
        if request.transport is not None:
            request.transport.abort()


def test_a_session_that_was_closed_is_opened_by_the_user_alone(start: Start) -> None:
    stalled = ScriptedResponse(steps=[delta(content="I begin"), Stall()])
    site = start(stalled, text_response("Again."))
    session = site.create()
    page = site.open(f"/#/s/{session}")
    page.locator(".connection.live").wait_for()
    _send(page, "First")
    page.get_by_text("I begin").wait_for()
    sessions = site.api.server.state.find_service().sessions

    site.call("POST", f"/sessions/{session}/close")
    page.locator(".connection.closed").wait_for()
    page.get_by_text("interrupted; what has arrived is kept").wait_for()
    assert sessions.get(session) is None
    _send(page, "Second")
    page.get_by_text("Again.").wait_for()
    page.locator(".connection.live").wait_for(state="attached")

    site.call("POST", f"/sessions/{session}/close")
    page.get_by_role("button", name="Open again").click()
    page.locator(".connection.live").wait_for(state="attached")
    assert sessions.get(session) is not None
    assert page.locator(".prompt-text").all_inner_texts() == ["First", "Second"]


def test_a_session_is_forked_and_the_copy_deleted(start: Start) -> None:
    site = start(text_response("Hello."))
    session = site.create(name="Original")
    site.say(session, "Hi")
    page = site.open(f"/#/s/{session}")
    page.get_by_text("Hello.").wait_for()

    page.keyboard.press("f")
    page.wait_for_url(lambda url: session not in url)
    copy = page.locator(f".session:not([data-session='{session}'])")
    copy.get_by_text("Hello.").wait_for()
    copy.locator(".connection.live").wait_for(state="attached")
    page.keyboard.press("x")
    page.get_by_role("button", name="Keep it").click()
    page.locator("dialog").wait_for(state="detached")
    page.get_by_label("Delete the session").click()
    page.locator("dialog[open] :focus").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.locator("button.danger:focus").wait_for()
    page.keyboard.press("Enter")
    page.locator(".home").wait_for()

    page.locator(".sessions li").filter(has_text="Original").first.wait_for()
    left = site.call("GET", "/sessions")["sessions"]
    assert [one["id"] for one in left] == [session]
