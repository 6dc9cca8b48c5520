"""From the output of a tool to the result that the model reads.

Secrets are removed, and a long text is truncated once, when the call has ended. What a compaction
or a clearing makes of results later is in `clew.context`.
"""

from msgspec.structs import replace

from clew.core.ids import EntryId
from clew.core.messages import Message, Role, ToolCall, ToolResult
from clew.core.redaction import redact
from clew.core.text import truncate_middle
from clew.session.state import SessionState
from clew.tools.protocol import ToolOutput


def redact_output(state: SessionState, output: ToolOutput) -> ToolOutput:
    """Remove secrets from an output before it is stored, sent or shown."""
    values = state.tool_context.redact_values
    if values is None:
        return output
    text = redact(output.text, extra_values=values)
    if text is output.text and not output.display and not output.data:
        return output
    return replace(
        output,
        text=text,
        display=redact(output.display, extra_values=values),
        data=redact(output.data, extra_values=values),
    )


def truncate_output(
    state: SessionState, text: str, *, where: str = "", max_chars: int | None = None
) -> str:
    """Return the head and the tail of an output that is too long for the model.

    Args:
        state: The session.
        text: The output.
        where: Says at the gap where the whole text is.
        max_chars: The tool's own limit. Default: the limit of the session's policy.
    """
    if max_chars is None:
        max_chars = state.policy.output_limit(state.journal.view.setup.model.window)
    return truncate_middle(text, max_chars, where=where)


def make_result(
    state: SessionState, call: ToolCall, output: ToolOutput, *, next_id: EntryId
) -> tuple[Message, str | None]:
    """Return the message that answers `call`; a long output is truncated.

    Args:
        state: The session.
        call: The call.
        output: Its output, redacted.
        next_id: The entry that the message becomes.

    Returns:
        The message, and the full text if the message does not have all of it.
    """
    tool, where = state.tools.get(call.name), f"; entry #{next_id} has it"
    most = tool.max_output_chars if tool is not None else None
    text = truncate_output(state, output.text, where=where, max_chars=most)
    result = ToolResult(
        call_id=call.call_id,
        name=call.name,
        text=text,
        failed=output.failed,
        images=output.images,
        loads=output.loads,
    )
    full_text = output.text if text != output.text else None
    return Message(role=Role.TOOL, parts=(result,)), full_text
