"""From flags to an open session."""

from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from clew.cli.choose import Choice, choose
from clew.cli.places import store_path
from clew.core.access import PermissionMode
from clew.core.errors import SessionNotFound
from clew.core.events import Event
from clew.session.gate import Ask, Gate
from clew.session.session import Session
from clew.session.stores.protocol import Store
from clew.session.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools

SYSTEM_PROMPT = """\
You are Clew, an assistant that works in the user's project folder. Be brief and exact.
Use the tools to look at files before you speak about them. Say so when you do not know."""


@asynccontextmanager
async def opened(
    arguments: Namespace,
    *,
    on_event: Callable[[Event], None],
    ask: Ask | None = None,
    on_choice: Callable[[Choice], None] | None = None,
) -> AsyncIterator[Session]:
    """Open the session that the flags describe; closes all it opened."""
    cwd = Path.cwd()
    store = SqliteStore(store_path(cwd))
    choice = choose(arguments)
    try:
        session_id = await _session_id(arguments, store)
        session = Session(
            choice.provider,
            model=choice.model,
            system_message=SYSTEM_PROMPT,
            tools=builtin_tools(),
            store=store,
            session_id=session_id,
            cwd=cwd,
            gate=Gate(cwd=cwd, ask=ask),
            max_context_tokens=arguments.window,
            on_event=on_event,
        )
        async with session:
            if arguments.permission_mode:
                await session.set_permission_mode(PermissionMode(arguments.permission_mode))
            if on_choice is not None:
                on_choice(choice)
            yield session
    finally:
        await choice.provider.aclose()
        await store.aclose()


async def _session_id(arguments: Namespace, store: Store) -> str | None:
    if arguments.resume:
        await store.load(arguments.resume)
        return str(arguments.resume)
    if arguments.latest:
        known = await store.sessions()
        if not known:
            raise SessionNotFound("there is no session in this folder to go on with")
        return known[0].id
    return None
