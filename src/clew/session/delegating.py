"""A prompt that somebody else answers, such as an agent with a window of its own."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.entries import MessageAdded
from clew.core.messages import assistant
from clew.session.hooking import admitted
from clew.session.rewind import checkpointed
from clew.session.state import SessionState
from clew.session.turn import Prompt

Delegate: TypeAlias = Callable[[], Awaitable[str]]
"""Does the work and returns the answer."""


async def delegate(kit: SessionState, prompt: Prompt, work: Delegate) -> str:
    """Add a prompt, have `work` answer it, and add the answer.

    The model reads both with the next prompt. Files that are changed meanwhile belong to this
    turn, so a rewind restores them.

    Raises:
        PromptBlocked: A hook did not let the prompt pass.
    """
    message = await admitted(kit, prompt.message, raw=prompt.raw)
    asked = await kit.journal.append(MessageAdded(message=message, display=prompt.display))
    async with checkpointed(kit, asked, prompt.display or prompt.message.text):
        answer = await work()
    await kit.journal.append(MessageAdded(message=assistant(answer)))
    kit.report_state()
    return answer
