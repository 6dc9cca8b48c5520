"""Every `SessionClient` keeps one contract: the local one, and the one over a pipe of JSON."""

import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.providers.scripted import ScriptedReply
from clew.sdk.client import SessionClient
from clew.sdk.client_json import METHODS
from clew.sdk.context_client import ContextClient
from clew.sdk.pipe_client import connect
from clew.sdk.task_client import TaskClient
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


def test_the_fields_of_encoded_parameters_are_the_arguments_of_each_method() -> None:
    protocols = {"": SessionClient, "tasks": TaskClient, "context": ContextClient}
    for method in METHODS.values():
        part, _, name = method.name.rpartition(".")
        arguments = list(inspect.signature(getattr(protocols[part], name)).parameters)[1:]
        encoded = list(method.params.__struct_fields__)

        assert encoded == arguments or (name, arguments) == ("submit", ["prompt"]), method.name


def test_every_method_of_a_client_but_events_can_be_encoded() -> None:
    protocols = {"": SessionClient, "tasks.": TaskClient, "context.": ContextClient}
    declared = {
        f"{part}{name}"
        for part, protocol in protocols.items()
        for name, member in vars(protocol).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }

    assert declared - set(METHODS) == {"events"}
    assert set(METHODS) <= declared
