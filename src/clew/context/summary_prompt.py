"""Prompts for a summary by a model, and the instructions of a project for it.

`digest` writes a summary without a model. Both are completed by facts from code.
"""

import sys
from collections.abc import Iterator, Sequence

from clew.context.digest.state.state_ledger import gather_state, render_state
from clew.context.items import Item
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    user,
)
from clew.core.text import truncate_middle

SUMMARY_SYSTEM = (
    "You write the handover notes of a work session. Report only what the transcript says."
)
_TASK = """\
Write notes from which the work can go on without the transcript. Below your notes a program quotes
the user's messages, the beginning and end of every final answer, the lines that edits changed, the
last result of each check, commits, tasks, and names of files. Do not repeat that: tell what it
means, and what only a reader of the whole transcript knows:
1. what the user wants now and why; rules and preferences, also those that follow from corrections;
2. decisions with their reasons, and the alternatives that were rejected;
3. what was learned: how the code that was read works, what reviews, reports, searches and pages
   said and who said it, with exact names, values, defaults, paths and lines;
4. what failed or proved wrong, its cause, and what solved it;
5. what is done, what is unfinished, and the next step.
Give the beginning and the middle of the session as much care as its end. Be dense: facts, no
introductions, no long tool output. If there are earlier notes, return them brought up to date, not
a summary of them."""
_RESULT_CHARS = 1_500
_LEAST_WORDS, _WORDS_PER_UNIT = 50, 0.5
"""A little less than most notes have, so that they stay within their budget."""


def split_transcript(items: Sequence[Item], *, max_chars: int) -> Iterator[list[str]]:
    """Split the transcript of `items` into chunks that fit the summarising model."""
    part: list[str] = []
    size = 0
    for line in format_transcript(items):
        short = truncate_middle(line, max_chars)
        if part and size + len(short) > max_chars:
            yield part
            part, size = [], 0
        part.append(short)
        size += len(short) + 1
    yield part


def build_summary_prompt(
    transcript: Sequence[str], *, max_units: int, previous: str = "", instructions: str = ""
) -> Message:
    """Build the prompt for a summary of a transcript that updates the `previous` summary.

    Args:
        transcript: What to summarise.
        max_units: How long the notes may be.
        previous: Earlier notes.
        instructions: What the notes should keep.
    """
    blocks = [f"{_TASK} {_limit(max_units)}"]
    if instructions:
        blocks.append(f"Additional focus:\n{instructions}")
    if previous:
        blocks.append(f"Earlier notes:\n{previous}")
    blocks.append("Transcript:\n" + "\n".join(transcript))
    return user("\n\n".join(blocks))


def build_summary_instruction(*, kept: int, max_units: int, instructions: str = "") -> Message:
    """Build the message that asks for a summary at the end of the conversation itself.

    Args:
        kept: How many of the last messages stay in the conversation.
        max_units: How long the notes may be.
        instructions: What the notes should keep.
    """
    blocks = [
        "This message is not from the user. The conversation pauses here, because its beginning"
        " leaves your context window; your notes will take its place.",
        _TASK,
        "A message at the beginning of this conversation may contain earlier notes."
        f" The last {kept} messages before this one stay as they are: mention them only where"
        f" that is needed to understand the rest. {_limit(max_units)} Call no tools;"
        " answer with the notes alone, and do not continue the work.",
    ]
    if instructions:
        blocks.append(f"Additional focus:\n{instructions}")
    return user("\n\n".join(blocks))


def _limit(max_units: int) -> str:
    return f"Write at most {max(_LEAST_WORDS, int(max_units * _WORDS_PER_UNIT))} words."


def format_transcript(items: Sequence[Item]) -> list[str]:
    """Return `items` as readable lines: messages, tool calls and results."""
    lines: list[str] = []
    for item in items:
        for part in item.message.parts:
            match part:
                case Text(text=text):
                    lines.append(f"{item.message.role}: {text}")
                case ToolCall(name=name, arguments=arguments):
                    lines.append(f"call {name} {truncate_middle(arguments, _RESULT_CHARS)}")
                case ToolResult(name=name, text=text, failed=failed):
                    outcome = "failed" if failed else "result"
                    lines.append(f"{outcome} of {name}: {truncate_middle(text, _RESULT_CHARS)}")
                case Image(media_type=media_type) | File(media_type=media_type):
                    lines.append(f"{item.message.role}: [{media_type}]")
                case Native(note=note) if note:
                    lines.append(f"{item.message.role}: {truncate_middle(note, _RESULT_CHARS)}")
                case Reasoning() | Native():
                    pass
    return lines


def format_facts(items: Sequence[Item], *, max_chars: int | None = None) -> str:
    """Return the facts about `items` as text, or an empty string."""
    most = sys.maxsize if max_chars is None else max_chars
    return render_state(gather_state(items), max_chars=most)
