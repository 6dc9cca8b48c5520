"""Putting into few words what leaves the view.

Two authors: a model, for which `summary_prompt` writes the request, or rules alone
(`digest`), where no model can be trusted with it. Either way the facts come from code.
"""

from collections.abc import Sequence

from clew.context.estimate import text_units
from clew.context.excerpt import excerpt
from clew.context.facts import gather
from clew.context.items import Item
from clew.core.messages import Image, Message, Reasoning, Role, Text, ToolCall, ToolResult, user

SUMMARY_SYSTEM = (
    "You write the handover notes of a work session. Report only what the transcript says."
)
_TASK = """\
Write notes from which the work can go on without the transcript. Cover, in this order:
what the user wants and every rule or preference they gave; decisions and why; what was
done, with exact names of files, commands, identifiers and values; errors met and how they
were solved; what is unfinished and the next step. Leave out long tool output. If there are
earlier notes, return them brought up to date, not a summary of them."""
_LINE_CHARS = 240
_RESULT_CHARS = 1_500


def summary_prompt(
    items: Sequence[Item],
    *,
    previous: str = "",
    instructions: str = "",
    max_chars: int | None = None,
) -> Message:
    """Ask for a summary of `items`, given the summary that it will replace.

    The transcript shows tool calls with their arguments; with `max_chars` its middle is
    left out, so that it fits the summariser's own window.
    """
    blocks = [_TASK]
    if instructions:
        blocks.append(f"Additional focus:\n{instructions}")
    if previous:
        blocks.append(f"Earlier notes:\n{previous}")
    transcript = "\n".join(transcript_lines(items))
    blocks.append("Transcript:\n" + excerpt(transcript, max_chars or len(transcript)))
    return user("\n\n".join(blocks))


def transcript_lines(items: Sequence[Item]) -> list[str]:
    """Return `items` as readable lines: who said, called or answered what."""
    lines: list[str] = []
    for item in items:
        for part in item.message.parts:
            match part:
                case Text(text=text):
                    lines.append(f"{item.message.role}: {text}")
                case ToolCall(name=name, arguments=arguments):
                    lines.append(f"call {name} {excerpt(arguments, _RESULT_CHARS)}")
                case ToolResult(name=name, text=text, failed=failed):
                    outcome = "failed" if failed else "result"
                    lines.append(f"{outcome} of {name}: {excerpt(text, _RESULT_CHARS)}")
                case Image(media_type=media_type):
                    lines.append(f"{item.message.role}: [{media_type}]")
                case Reasoning():
                    pass
    return lines


def facts_text(items: Sequence[Item]) -> str:
    """Return the code-written facts about `items`, or an empty string."""
    return "\n".join(gather(items).lines())


def digest(items: Sequence[Item], *, max_units: int) -> str:
    """Summarise `items` by rules alone: what was asked, what was touched, what was answered.

    Deterministic, never longer than `max_units`, and true: every line is taken from the
    items. The newest lines win when there is not room for all.
    """
    first, last = items[0].entry_id, items[-1].entry_id
    head = [f"{len(items)} earlier messages (#{first} to #{last}) were set aside; none is lost."]
    head += [line[: 4 * _LINE_CHARS] for line in gather(items).lines()]
    spoken = [line for item in items for line in _gist(item)]
    room = max_units - sum(text_units(line) + 1 for line in head)
    kept: list[str] = []
    for line in reversed(spoken):
        room -= text_units(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*head, *reversed(kept)])


def _gist(item: Item) -> list[str]:
    speaker = {Role.USER: "The user said", Role.ASSISTANT: "The assistant said"}
    text = " ".join(item.message.text.split())
    if text and item.message.role in speaker:
        return [f"#{item.entry_id} {speaker[item.message.role]}: {excerpt(text, _LINE_CHARS)}"]
    return [
        f"#{item.entry_id} {result.name} {'failed' if result.failed else 'gave'}: {line}"
        for result in item.message.results
        if (line := excerpt(" ".join(result.text.split()), _LINE_CHARS // 2))
    ]
