"""`--input-format stream-json`: prompts and answers as lines of JSON on standard input."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from clew.cli.argument_parser import UsageError
from clew.cli.streams import write_err
from clew.core.errors import SessionError
from clew.core.json_text import decode_json
from clew.core.permissions import Approval
from clew.core.sanitize import sanitize_line
from clew.sdk.client import PromptInput, SessionClient
from clew.sdk.stdio import read_pieces

_MAX_LINE = 32_000_000


class PromptLine(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="prompt"
):
    """A prompt or a command; it runs when those before it are done."""

    text: str
    attach: bool | str = True
    """Attach what `@path` names: in the text, or in this part of it."""


class AnswerLine(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="answer"
):
    """The answer to a `permission_request`."""

    request_id: str
    approval: Approval
    reply: str = ""
    """A message for the model, such as what to do instead."""


class AbortLine(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="abort"):
    """Aborts the prompt that runs."""


InputLine: TypeAlias = PromptLine | AnswerLine | AbortLine


async def read_input(number: int) -> AsyncIterator[InputLine]:
    """Yield the lines of a file descriptor until it ends; skips empty ones.

    Raises:
        UsageError: A line is not one of the three kinds.
    """
    count = 0
    async for line in _read_lines(number):
        count += 1
        if not line.strip():
            continue
        try:
            yield decode_json(line, type=InputLine)
        except msgspec.DecodeError as error:
            raise UsageError(f"line {count} of standard input is wrong: {error}") from error


async def apply_line(
    line: InputLine, session: SessionClient, submit: Callable[[PromptInput], None]
) -> None:
    """Submit a prompt, answer a request, or abort the run."""
    match line:
        case PromptLine(text=text, attach=attach):
            submit(PromptInput(text=text, attach=attach))
        case AnswerLine(request_id=request_id, approval=approval, reply=reply):
            try:
                await session.answer(request_id, approval, reply=reply)
            except SessionError as error:
                write_err(f"{sanitize_line(request_id, 40)}: {error}")
        case AbortLine():
            session.abort()


async def _read_lines(number: int) -> AsyncIterator[bytes]:
    """Yield lines without a thread: one that waits for input would keep the program alive."""
    rest = bytearray()
    async for piece in read_pieces(number):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield bytes(line)
        if len(rest) > _MAX_LINE:
            raise UsageError(f"a line of standard input has more than {_MAX_LINE:,} bytes")
    if rest:
        yield bytes(rest)
