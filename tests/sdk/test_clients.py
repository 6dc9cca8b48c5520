"""Every `SessionClient` keeps one contract: the local one, and the one over a pipe of JSON."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.providers.scripted import ScriptedReply
from clew.sdk.client import SessionClient
from clew.sdk.pipe_client import connect
from clew.testing.clients import CLIENT_CHECKS, ClientCheck
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("INT-7")]


@pytest.mark.parametrize("check", CLIENT_CHECKS, ids=lambda check: check.__name__)
async def test_the_local_session_keeps_the_contract(check: ClientCheck, tmp_path: Path) -> None:
    @asynccontextmanager
    async def open_client(replies: Sequence[ScriptedReply]) -> AsyncGenerator[SessionClient, None]:
        async with Place(tmp_path).session(replies) as session:
            yield session

    await check(open_client)


@pytest.mark.parametrize("check", CLIENT_CHECKS, ids=lambda check: check.__name__)
async def test_a_session_over_a_pipe_keeps_the_contract(check: ClientCheck, tmp_path: Path) -> None:
    @asynccontextmanager
    async def open_client(replies: Sequence[ScriptedReply]) -> AsyncGenerator[SessionClient, None]:
        async with Place(tmp_path).session(replies) as session, connect(session) as remote:
            yield remote

    await check(open_client)
