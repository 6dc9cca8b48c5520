"""A terminal that joins a session late shows what one shows that was there from the start."""

from pathlib import Path

import anyio
import pytest

from clew.core.events import Envelope, PermissionRequest
from clew.core.permissions import Approval
from clew.providers.protocol import ReasoningChunk, TextChunk
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.sdk.client import wait_for_run
from clew.testing.client_streams import prompt, take_events
from clew.tui.blocks import Answer, Block, Notice, ThinkingBlock, ToolCallBlock, UserPrompt
from clew.tui.history import take_last_turn
from clew.tui.rendering import render_block, render_preview
from clew.tui.theme import make_theme
from clew.tui.transcript import Transcript
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-1", "TUI-2")]

MONOCHROME = make_theme(colours=False)


def fold(transcript: Transcript, envelopes: list[Envelope]) -> list[Block]:
    return [block for envelope in envelopes for block in transcript.apply(envelope)]


def texts(blocks: list[Block]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, Answer))


def kinds(blocks: list[Block]) -> list[str]:
    """Return the kinds of the blocks; the parts of an answer count once."""
    return [type(one).__name__ for one in blocks if not (isinstance(one, Answer) and one.part)]


async def test_a_snapshot_and_the_rest_are_the_whole_transcript(tmp_path: Path) -> None:
    pause = Pause()
    look = call_reply(("Glob", {"pattern": "*"}), text="I look.")
    replies: list[ScriptedReply] = [
        [ReasoningChunk(index=0, text="Hm."), *look],
        [TextChunk("One.\n\nTw"), pause, *text_reply("o.\n\nThree.")],
    ]
    with anyio.fail_after(60):
        async with Place(tmp_path).session(replies) as client:
            begin = (await client.snapshot()).seq
            run = await client.submit(prompt("go"))
            await pause.reached.wait()
            middle = await client.snapshot()
            pause.release()
            await wait_for_run(client, run, after=begin)
            end = await client.snapshot()
            everything = await take_events(client, begin, end.seq)

            whole = fold(Transcript(), everything)
            late = Transcript()
            joined = late.join(middle, at=1.0)
            assert late.live is not None
            assert late.live.answer == "Tw"
            joined += fold(late, [one for one in everything if one.seq > middle.seq])
            reopened = Transcript().join(end, at=1.0)

    assert texts(whole) == texts(joined) == texts(reopened) == "I look.One.\n\nTwo.\n\nThree."
    assert kinds(whole) == kinds(joined) == kinds(reopened)
    assert kinds(whole) == ["UserPrompt", "ThinkingBlock", "Answer", "ToolCallBlock", "Answer"]
    assert isinstance(joined[0], UserPrompt)
    assert isinstance(joined[1], ThinkingBlock)


async def test_an_edit_looks_the_same_before_and_after_it_and_when_it_is_reopened(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    (place.project / "a.py").write_bytes(b"one\n\ttwo = 2\nthree\r\nfour\n" * 3)
    edit: dict[str, object] = {"file_path": "a.py", "replace_all": True}
    edit |= {"old_string": "three\nfour\none", "new_string": "3\nfour\n1"}
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "a.py"}), ("Edit", edit)),
        "Done.",
    ]
    previews: list[list[str]] = []
    with anyio.fail_after(60):
        async with place.session(replies) as client:
            begin = (await client.snapshot()).seq

            def answer(event: PermissionRequest) -> None:
                shown = render_preview(event, width=64, theme=MONOCHROME, cwd=str(place.project))
                previews.append(shown)
                client.answer(event.request_id, Approval.ONCE)

            client.on("permission_request", answer)
            await wait_for_run(client, await client.submit(prompt("go")), after=begin)
            end = await client.snapshot()
            blocks = fold(Transcript(), await take_events(client, begin, end.seq))
            reopened = Transcript().join(end, at=1.0)

    (done,) = [one for one in blocks if isinstance(one, ToolCallBlock) and one.name == "Edit"]
    (again,) = [one for one in reopened if isinstance(one, ToolCallBlock) and one.name == "Edit"]
    shown = render_block(done, width=64, theme=MONOCHROME).splitlines()
    (preview,) = previews
    assert [line.removeprefix("  │ ").rstrip() for line in preview] == [
        line.removeprefix("  ") for line in shown[1:]
    ]
    assert shown == render_block(again, width=64, theme=MONOCHROME).splitlines()
    assert any(line.endswith("- three␍") for line in shown)


def test_a_resumed_session_shows_the_end_of_a_long_turn() -> None:
    turn: list[Block] = [UserPrompt("old"), Answer(text="old"), UserPrompt("new")]
    turn += [Answer(text=f"{number}") for number in range(30)]

    prompt, note, *rest = take_last_turn(turn)

    assert prompt == UserPrompt("new")
    assert isinstance(note, Notice)
    assert note.text.startswith("18 parts not shown")
    assert rest == turn[-12:]
    assert take_last_turn(turn[:2]) == turn[:2]
    assert take_last_turn([]) == []
