"""The window of a model is asked for where a server decides it, and learned from refusals."""

import json
from pathlib import Path

import pytest

from clew import Session
from clew.core.errors import ContextOverflow
from clew.core.models import ModelFacts
from clew.providers.compatible import Compatible
from clew.providers.openai_chat import OpenAIChat
from clew.providers.scripted import ScriptedProvider
from clew.session.calibrations import MOST_MODELS, WINDOW_LIFETIME, CalibrationFile
from clew.testing.fake_openai import error_response, fake_openai, text_response
from clew.testing.server import ScriptedResponse, serve

pytestmark = pytest.mark.anyio

OVERFLOW = error_response(
    400, {"error": {"message": "This model's maximum context length is 8192 tokens."}}
)
NOW = 1_700_000_000.0


def document(body: object) -> ScriptedResponse:
    return ScriptedResponse(steps=[json.dumps(body).encode()], content_type="application/json")


def window(session: Session) -> int:
    return session.journal.view.setup.model.window


@pytest.mark.req("CTX-5", "CMP-9")
async def test_a_window_that_a_refusal_taught_is_used_by_the_next_session_at_that_endpoint(
    tmp_path: Path,
) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    async with fake_openai(OVERFLOW, text_response("ok"), OVERFLOW) as server:
        provider = OpenAIChat(server.url)
        async with Session(provider, model="gpt-4o", calibrations=file) as session:
            assert window(session) == 128_000
            assert await session.run("hi") == "ok"
            assert window(session) == 8_192
        async with Session(provider, model="gpt-4o", calibrations=file) as session:
            assert window(session) == 8_192
        async with Session(provider, model="gpt-4.1", calibrations=file) as session:
            assert window(session) > 128_000
            await session.set_model("gpt-4o")
            assert window(session) == 8_192
        elsewhere = OpenAIChat(server.url.replace("127.0.0.1", "localhost"))
        async with Session(elsewhere, model="gpt-4o", calibrations=file) as session:
            assert window(session) == 128_000
        async with Session(
            provider, model="gpt-4o", calibrations=file, max_context_tokens=64_000
        ) as session:
            assert window(session) == 64_000
        await provider.aclose()
        await elsewhere.aclose()


@pytest.mark.req("CMP-9")
async def test_the_limit_of_an_account_bounds_one_session_and_is_not_remembered_for_the_model(
    tmp_path: Path,
) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    limit = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 31538."
    refusal = error_response(429, {"error": {"message": limit, "code": "rate_limit_exceeded"}})
    async with fake_openai(refusal, text_response("ok")) as server:
        provider = OpenAIChat(server.url)
        async with Session(provider, model="gpt-4o", calibrations=file) as session:
            assert await session.run("hi") == "ok"
            assert window(session) == 30_000
        async with Session(provider, model="gpt-4o", calibrations=file) as session:
            assert window(session) == 128_000
        await provider.aclose()


async def test_a_provider_without_an_address_is_known_by_its_name(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "calibration.json")
    facts = ModelFacts(name="m", window=100_000)
    overflow = ContextOverflow("too long", provider="scripted", limit=9_000)
    for expected in (100_000, 9_000):
        provider = ScriptedProvider([overflow, "ok"], facts=facts)
        async with Session(provider, model="m", calibrations=file) as session:
            assert window(session) == expected
            if expected == 100_000:
                await session.run("hi")


def test_a_learned_window_is_forgotten_after_a_month(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "c.json")

    assert file.save_window("m@here", 8_192, NOW)
    assert file.load_window("m@here", NOW + WINDOW_LIFETIME - 1) == 8_192
    assert file.load_window("m@here", NOW + WINDOW_LIFETIME) is None
    assert file.load_window("m@there", NOW) is None


def test_the_windows_learned_last_are_kept(tmp_path: Path) -> None:
    file = CalibrationFile(tmp_path / "c.json")
    for number in range(MOST_MODELS + 1):
        file.save_window(f"m{number}", 8_192, NOW)

    assert file.load_window("m0", NOW) is None
    assert file.load_window("m1", NOW) == 8_192


@pytest.mark.req("CTX-5", "PRV-1")
async def test_a_session_asks_ollama_for_the_window() -> None:
    shown = document({"model_info": {"q.context_length": 40_960}})
    loaded = document({"models": [{"name": "qwen3:8b", "context_length": 16_384}]})
    async with serve(shown, loaded, shown, loaded) as server:
        provider = Compatible("ollama", base_url=f"{server.url}/v1")
        async with Session(provider, model="qwen3:8b") as session:
            assert window(session) == 16_384
            assert session.journal.view.setup.model.known
        async with Session(provider, model="qwen3:8b", max_context_tokens=2_000) as session:
            assert window(session) == 2_000
        await provider.aclose()

    assert server.paths == ["/api/show", "/api/ps"]


async def test_a_session_opens_where_ollama_does_not_answer() -> None:
    provider = Compatible("ollama", base_url="http://127.0.0.1:9/v1")
    async with Session(provider, model="qwen3:8b") as session:
        assert window(session) == 4_096
    await provider.aclose()
