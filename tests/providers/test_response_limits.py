"""A server that sends too much, or makes no progress, costs one typed error and nothing else."""

from contextlib import suppress

import anyio
import pytest

from attacks.corpus import Status
from attacks.hostile_servers import attack_session, serve_attack
from attacks.server_attacks import (
    API_ATTACKS,
    ATTACKS,
    SSE,
    Attack,
    bomb,
    drip,
    flood,
    make_head,
    send,
)
from attacks.victim import RECOVERY
from clew import Session
from clew.core.errors import ClewError, ProviderError, ProviderTimeout, ResponseTooLarge
from clew.providers.openai_chat import OpenAIChat
from clew.testing.fake_openai import delta
from clew.testing.provider_harness import AdapterParams
from tests.providers.harnesses import HARNESSES

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRV-4")]

NAMED = {attack.name: attack for attack in (*ATTACKS, *API_ATTACKS)}
LARGE = [
    "an endless line",
    "an endless event of many lines",
    "an endless comment",
    "an endless document",
    "an endless document without a type",
    "a gzip bomb in a line",
    "a deflate bomb in a line",
    "a gzip bomb in a document",
]
SLOW = [
    "a slow drip of headers",
    "a slow drip of one line",
    "slow comments",
    "slow events without content",
    "slow unknown events",
    "a slow document",
    "a slow error",
    "endless hints",
]


@pytest.mark.parametrize("name", LARGE)
async def test_a_response_that_is_too_large_is_a_typed_error(name: str) -> None:
    await expect(ResponseTooLarge, NAMED[name])


@pytest.mark.parametrize(
    ("name", "api"), [("endless text", "bedrock"), ("endless thinking", "openai-chat")]
)
async def test_an_answer_without_an_end_is_cut_off(name: str, api: str) -> None:
    async with serve_attack(NAMED[name], api) as url:
        provider = HARNESSES[api].make(AdapterParams(url=url))
        try:
            with anyio.fail_after(60), pytest.raises(ResponseTooLarge, match="million characters"):
                async with Session(provider, model="m", max_turns=1) as session:
                    await session.run("begin")
        finally:
            await provider.aclose()


@pytest.mark.parametrize("name", SLOW)
async def test_data_without_progress_of_the_answer_times_out(name: str) -> None:
    error = await expect(ProviderTimeout, NAMED[name], progress_timeout=0.4)

    assert "no part of the answer for 0.4 seconds" in str(error)


async def test_the_time_without_progress_follows_the_idle_timeout_unless_it_is_set() -> None:
    def stall(**options: float) -> float:
        return OpenAIChat("http://127.0.0.1:9", **options).transport.endpoint.longest_stall  # type: ignore[arg-type]

    assert stall() == 600.0
    assert stall(idle_timeout=2.0) == 10.0
    assert stall(idle_timeout=2.0, progress_timeout=3.0) == 3.0


async def test_words_that_come_slowly_are_progress() -> None:
    slow = Attack("slow words", drip(make_head(SSE), delta(content="word ")))
    async with serve_attack(slow, "openai-chat") as url:
        provider = OpenAIChat(f"{url}/v1", progress_timeout=5.0)
        session = Session(provider, model="m")
        words = anyio.Event()

        async def run() -> None:
            with suppress(ClewError):
                await session.run("begin")

        session.on("text_delta", lambda text: words.set())
        async with session, anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.fail_after(60):
                await words.wait()
            session.abort()
        await provider.aclose()


@pytest.mark.slow("waits for a time limit")
async def test_what_follows_a_complete_answer_cannot_hold_it_up() -> None:
    complete = make_head(SSE) + delta(content="the answer") + delta("stop")
    for after in (drip(complete, b": ping\n\n"), flood(complete + b":", b"x" * 65_536)):
        async with serve_attack(Attack("more", after), "openai-chat") as url:
            provider = OpenAIChat(f"{url}/v1")
            async with Session(provider, model="m") as session:
                with anyio.fail_after(60):
                    assert await session.run("begin") == "the answer"
            await provider.aclose()


async def test_a_list_of_models_is_bounded_too() -> None:
    endless = Attack("models", flood(make_head("application/json") + b'{"data": "', b"x" * 65536))
    packed = Attack(
        "packed", bomb("gzip", make_head("application/json", "Content-Encoding: gzip"), b"[")
    )
    for attack in (endless, packed):
        async with serve_attack(attack, "openai-chat") as url:
            provider = HARNESSES["lm-studio"].make(AdapterParams(url=url))
            with anyio.fail_after(60), pytest.raises(ResponseTooLarge):
                await provider.models()  # type: ignore[attr-defined]
            await provider.aclose()


async def test_the_text_that_arrived_before_the_flood_is_kept() -> None:
    flooded = Attack(
        "text, then a flood",
        flood(make_head(SSE) + delta(content="The first words.") + b"data: ", b"x" * 65_536),
    )
    async with serve_attack(flooded, "openai-chat") as url:
        provider = OpenAIChat(f"{url}/v1")
        async with Session(provider, model="m") as session:
            with anyio.fail_after(60), pytest.raises(ResponseTooLarge):
                await session.run("begin")
            kept = session.get_history()[-1]
        await provider.aclose()

    assert (kept.text, kept.interrupted) == ("The first words.", True)


@pytest.mark.slow("starts a process")
async def test_the_memory_of_an_attacked_process_stays_bounded() -> None:
    outcome = await attack_session(NAMED["a gzip bomb in a line"], "openai-chat")

    assert outcome.status is Status.HELD, outcome


async def test_an_empty_response_is_no_answer() -> None:
    await expect(ProviderError, Attack("nothing", send(make_head(SSE))))


async def expect(
    kind: type[ProviderError], attack: Attack, progress_timeout: float | None = None
) -> ProviderError:
    """Attack a session; it must raise this error, and answer the next prompt."""
    async with serve_attack(attack, "openai-chat") as url:
        provider = OpenAIChat(f"{url}/v1", progress_timeout=progress_timeout)
        async with Session(provider, model="m") as session:
            with anyio.fail_after(60), pytest.raises(kind) as raised:
                await session.run("begin")
            with anyio.fail_after(60):
                assert await session.run(RECOVERY) == "ok"
        await provider.aclose()
    return raised.value
