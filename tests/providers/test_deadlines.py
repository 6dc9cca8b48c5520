"""Calls that wait at the same time share a timer, and each keeps its own limit."""

import anyio
import pytest

from attacks.hostile_servers import serve_attack
from attacks.server_attacks import SSE, Attack, drip, make_head
from clew import Session
from clew.core.errors import ProviderTimeout
from clew.core.results import ExecutionResult
from clew.providers.openai_chat import OpenAIChat

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRV-4")]

SLOW = Attack("slow headers", drip(make_head(SSE)[:-2], b"X-Slow: 1\r\n"))


@pytest.mark.slow("waits for a time limit")
async def test_each_call_ends_at_its_own_limit() -> None:
    ended: list[float] = []

    async def call(url: str, limit: float) -> None:
        provider = OpenAIChat(f"{url}/v1", progress_timeout=limit)
        async with Session(provider, model="m") as session:
            with pytest.raises(ProviderTimeout, match=f"for {limit:g} seconds"):
                await session.run("begin")
        ended.append(limit)
        await provider.aclose()

    async with serve_attack(SLOW, "openai-chat") as url:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for limit in (1.5, 0.3, 0.9):
                    group.start_soon(call, url, limit)

    assert sorted(ended) == [0.3, 0.9, 1.5]


@pytest.mark.slow("waits for a time limit")
async def test_data_outside_the_body_is_no_progress_although_the_connection_is_never_idle() -> None:
    head = make_head(SSE, "Transfer-Encoding: chunked")
    async with serve_attack(Attack("slow chunk", drip(head + b"5;x=", b"a")), "openai-chat") as url:
        provider = OpenAIChat(f"{url}/v1", idle_timeout=2.0, progress_timeout=2.2)
        async with Session(provider, model="m") as session:
            with (
                anyio.fail_after(60),
                pytest.raises(ProviderTimeout, match="no part of the answer"),
            ):
                await session.run("begin")
        await provider.aclose()


async def test_an_abort_while_another_call_waits_is_no_timeout() -> None:
    results: list[ExecutionResult] = []

    async with serve_attack(SLOW, "openai-chat") as url:
        patient = OpenAIChat(f"{url}/v1", progress_timeout=60.0)
        hasty = OpenAIChat(f"{url}/v1", progress_timeout=0.3)
        aborted, other = Session(patient, model="m"), Session(hasty, model="m")

        async def run() -> None:
            results.append(await aborted.execute("begin"))

        with anyio.fail_after(60):
            async with aborted, other, anyio.create_task_group() as group:
                group.start_soon(run)
                with pytest.raises(ProviderTimeout):
                    await other.run("begin")
                aborted.abort()
        await patient.aclose()
        await hasty.aclose()

    assert [result.interrupted for result in results] == [True]
