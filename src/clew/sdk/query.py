"""`create_query`: one line from a prompt to an answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Unpack

from clew.core.access import PermissionMode
from clew.core.events import CompactionEnded
from clew.providers.protocol import Provider
from clew.sdk.interactive import InteractiveSession
from clew.sdk.options import InteractiveOptions
from clew.session.config import SessionOptions
from clew.stores.memory import MemoryStore


class Query(Protocol):
    """Answers one prompt; each call is a session of its own that leaves nothing behind."""

    async def __call__(
        self,
        prompt: str,
        *,
        cwd: Path | str | None = None,
        permission_mode: PermissionMode | None = None,
        max_turns: int | None = None,
        on_text_delta: Callable[[str], object] | None = None,
        on_compact: Callable[[str], object] | None = None,
    ) -> str:
        """Return the answer.

        Args:
            prompt: What the model is asked.
            cwd: The project to work in; as `create_query` was told unless given.
            permission_mode: How much runs without asking: nobody is there to be asked.
            max_turns: How many model calls may be made.
            on_text_delta: Hears the words as they arrive.
            on_compact: Hears the summary when the conversation was compacted.

        Raises:
            ClewError: The run failed.
        """
        ...


def create_query(
    provider: Provider, *, cwd: Path | str = ".", **defaults: Unpack[InteractiveOptions]
) -> Query:
    """Return a function that answers prompts with this provider.

    Options are those of `InteractiveSession`; without a store, nothing is kept.
    """

    async def query(
        prompt: str,
        *,
        cwd: Path | str | None = cwd,
        permission_mode: PermissionMode | None = None,
        max_turns: int | None = None,
        on_text_delta: Callable[[str], object] | None = None,
        on_compact: Callable[[str], object] | None = None,
    ) -> str:
        options: InteractiveOptions = {"store": MemoryStore(), "checkpoints": False, **defaults}
        if permission_mode is not None:
            options["permission_mode"] = permission_mode
        if max_turns is not None:
            given: SessionOptions = options.get("session_options", {})
            options["session_options"] = {**given, "max_turns": max_turns}
        session = InteractiveSession(cwd=cwd or ".", provider=provider, **options)
        if on_text_delta is not None:
            session.on("text_delta", on_text_delta)
        if on_compact is not None:
            told = on_compact
            session.on(
                "compaction",
                lambda event: isinstance(event, CompactionEnded) and told(event.summary),
            )
        async with session:
            return (await session.submit(prompt)).response

    return query
