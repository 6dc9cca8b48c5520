"""A prompt that somebody else answers, such as an agent with a window of its own."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from clew.core.entries import MessageAdded
from clew.core.errors import ClewError
from clew.core.messages import assistant
from clew.providers.protocol import StopReason
from clew.session.call import Answer
from clew.session.hooking import admitted
from clew.session.rewind import checkpointed
from clew.session.state import SessionState
from clew.session.turn import Prompt

Delegate: TypeAlias = Callable[[], Awaitable[str]]
"""Does the work and returns the answer."""


async def delegate(kit: SessionState, prompt: Prompt, work: Delegate) -> Answer:
    """Add a prompt, have `work` answer it, and add the answer.

    The model reads both with the next prompt. Files that change meanwhile belong to this turn,
    so a rewind restores them. When the work fails, the answer says so: a prompt never stays
    unanswered.

    Raises:
        PromptBlocked: A hook blocked the prompt.
    """
    message = await admitted(kit, prompt.message, raw=prompt.raw)
    asked = await kit.journal.append(MessageAdded(message=message, display=prompt.display))
    try:
        async with checkpointed(kit, asked, prompt.display or prompt.message.text):
            answer = assistant(await work())
    except BaseException as error:
        reason = str(error) if isinstance(error, ClewError) else "it was aborted"
        with anyio.CancelScope(shield=True):
            note = assistant(f"[no answer: {reason}]", interrupted=True)
            await kit.journal.append(MessageAdded(message=note))
        raise
    await kit.journal.append(MessageAdded(message=answer))
    kit.report_state()
    return Answer(message=answer, reason=StopReason.DONE)
