"""Providers built from the profiles of the settings."""

from typing import Any

import pytest
from msgspec import UNSET

from clew.config.providers import resolve_profile
from clew.config.schema import ProfileSection
from clew.config.settings import Settings
from clew.core.errors import ConfigError, ProviderTimeout
from clew.core.messages import user
from clew.providers.protocol import Provider, Request, SearchesWeb
from clew.providers.registry import build_provider
from clew.testing.fake_openai import delta, fake_openai
from clew.testing.server import ScriptedResponse, Stall

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRV-1")]

SEED_QWEN = {"builtInWebTools": {"webSearch": True, "webFetch": True}}
"""The options of the Qwen profile in the seed documents."""


def build(kind: str, *, base_url: str = "", timeout: float = 0, **options: Any) -> Provider:
    section = ProfileSection(
        type=kind,
        model="m",
        api_key="key",
        base_url=base_url or UNSET,
        timeout=timeout or UNSET,
        options=options,
    )
    profile = resolve_profile(Settings(providers={"mine": section}), "mine", {})
    return build_provider(profile, {})


async def ask(provider: Provider) -> None:
    async for _ in provider.stream(Request(model="m", messages=(user("hi"),))):
        pass
    await provider.aclose()


async def test_options_of_a_profile_become_fields_of_every_request() -> None:
    async with fake_openai() as server:
        await ask(build("openai_chat", base_url=server.url, top_k=3))

    assert server.requests[0]["top_k"] == 3


async def test_the_timeout_of_a_profile_is_the_idle_timeout_in_milliseconds() -> None:
    silent = ScriptedResponse(steps=[delta(content="so"), Stall()])
    async with fake_openai(silent) as server:
        provider = build("openai_chat", base_url=server.url, timeout=100)
        with pytest.raises(ProviderTimeout, match=r"0\.1 seconds"):
            await ask(provider)
        await provider.aclose()


@pytest.mark.parametrize(
    "options", [SEED_QWEN, {"webSearch": True, "webFetch": True}], ids=["nested", "direct"]
)
async def test_the_qwen_profile_of_the_seeds_enables_both_web_tools(
    options: dict[str, Any],
) -> None:
    async with fake_openai() as server:
        provider = build("qwen", base_url=server.url, **options, top_k=3)
        await ask(provider)

    assert isinstance(provider, SearchesWeb)
    assert provider.web_tools == {"web_search", "web_fetch"}
    sent = server.requests[0]
    assert sent["enable_search"] is sent["enable_thinking"] is True
    assert sent["search_options"] == {"search_strategy": "agent_max"}
    assert sent["top_k"] == 3
    assert not sent.keys() & {"webSearch", "webFetch", "builtInWebTools"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builtInWebTools": True}, "accepts webSearch and webFetch only"),
        ({"builtInWebTools": {"webCrawl": True}}, "accepts webSearch and webFetch only"),
        ({"webFetch": "yes"}, "webFetch must be true or false"),
        ({"webFetch": True}, "deepseek has no built-in web_fetch"),
    ],
)
def test_an_invalid_web_tool_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("deepseek", **options)
