"""Models that cannot see are told of pictures and files instead."""

import pytest

from clew.core.ids import CallId
from clew.core.messages import File, Image, Message, Role, Text, ToolCall, ToolResult, assistant
from clew.providers.protocol import Request
from tests.providers.formats import FORMATS, READER, Format, name_of

PICTURE = Image(data=b"\x89PNG")
PAPER = File(media_type="application/pdf", data=b"%PDF", name="paper.pdf")
CALL = ToolCall(call_id=CallId("c1"), name="Look")
RESULT = ToolResult(call_id=CallId("c1"), name="Look", text="Here it is.", images=(PICTURE,))
HISTORY = (
    Message(role=Role.USER, parts=(Text("What is this?"), PICTURE, PAPER)),
    assistant("Let me see.", CALL),
    Message(role=Role.TOOL, parts=(RESULT,)),
)
BLIND = "[A picture (image/png) that this model cannot see.]"
UNREAD = "[A file 'paper.pdf' (application/pdf) that this model cannot read.]"


@pytest.mark.parametrize("wire", FORMATS, ids=name_of)
@pytest.mark.req("PRV-1")
def test_a_model_that_cannot_see_gets_notes(wire: Format) -> None:
    text = wire.text(*HISTORY, sees=False)

    assert text.count(BLIND) == 2
    assert text.count(UNREAD) == 1
    assert "Here it is." in text
    assert "iVBO" not in text
    assert "JVBE" not in text


@pytest.mark.parametrize("wire", FORMATS, ids=name_of)
def test_a_model_that_sees_gets_pictures_and_the_two_share_no_fragment(wire: Format) -> None:
    kept = wire.kept(READER)
    seeing = Request(model="m", messages=HISTORY)
    blind = Request(model="m", messages=HISTORY, sees=False)

    bodies = [wire.encode(request, kept).decode() for request in (seeing, blind, seeing, blind)]

    assert bodies[0] == bodies[2]
    assert bodies[1] == bodies[3]
    assert "that this model cannot" not in bodies[0]
    assert "that this model cannot" in bodies[1]


@pytest.mark.parametrize("wire", FORMATS, ids=name_of)
def test_a_conversation_without_pictures_is_the_same_for_both(wire: Format) -> None:
    messages = (
        HISTORY[1],
        Message(
            role=Role.TOOL, parts=(ToolResult(call_id=CallId("c1"), name="Look", text="Nothing."),)
        ),
    )

    assert wire.text(*messages) == wire.text(*messages, sees=False)
