"""`create_query`: a function from a prompt to an answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Unpack

from clew.core.permissions import PermissionMode
from clew.providers.protocol import Provider
from clew.sdk.options import InteractiveOptions
from clew.sdk.session import InteractiveSession
from clew.stores.memory import MemoryStore


class Query(Protocol):
    """Answers one prompt; each call is a session of its own, and nothing is stored."""

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
            cwd: The project's folder; the one passed to `create_query` by default.
            permission_mode: What runs without asking; a question is denied.
            max_turns: The most model calls.
            on_text_delta: Called with each piece of the answer.
            on_compact: Called with the summary of each compaction.

        Raises:
            ClewError: The run failed.
        """
        ...


def create_query(provider: Provider, **defaults: Unpack[InteractiveOptions]) -> Query:
    """Return a function that answers prompts with this provider.

    Options are those of `InteractiveSession`; without a store, nothing is stored.
    """

    async def query(
        prompt: str,
        *,
        cwd: Path | str | None = None,
        permission_mode: PermissionMode | None = None,
        max_turns: int | None = None,
        on_text_delta: Callable[[str], object] | None = None,
        on_compact: Callable[[str], object] | None = None,
    ) -> str:
        options: InteractiveOptions = {"keep_checkpoints": False, **defaults}
        options.setdefault("store", MemoryStore())
        if cwd is not None:
            options["cwd"] = cwd
        if permission_mode is not None:
            options["permission_mode"] = permission_mode
        if max_turns is not None:
            options["max_turns"] = max_turns
        session = InteractiveSession(provider=provider, **options)
        if on_text_delta is not None:
            show = on_text_delta
            session.on("text_delta", lambda event: show(event.text))
        if on_compact is not None:
            report = on_compact
            session.on("compaction", lambda event: report(event.summary))
        async with session:
            return (await session.run(prompt)).response

    return query
