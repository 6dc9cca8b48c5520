"""Every provider keeps one contract."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from clew.providers.protocol import (
    CallChunk,
    Finished,
    Provider,
    ReasoningChunk,
    StopReason,
    TextChunk,
)
from clew.providers.scripted import ScriptedProvider, ScriptedStep
from clew.testing.provider_checks.failures import FAILURE_CHECKS
from clew.testing.providers import (
    ANSWER_CHECKS,
    PROVIDER_CHECKS,
    AnswerCheck,
    ApiCapabilities,
    Check,
    HttpHarness,
    ModelReply,
)
from tests.providers.harnesses import HARNESSES
from tests.providers.tiny import TINY

pytestmark = pytest.mark.anyio

WIRE_FORMATS = ("anthropic", "bedrock", "gemini", "openai", "openai-chat")
FORMATS = {**{name: HARNESSES[name] for name in WIRE_FORMATS}, "tiny": TINY}
"""One adapter for each wire format, and the sound version of the flawed ones."""
DIALECTS = {name: harness for name, harness in HARNESSES.items() if name not in FORMATS}
DIALECT_CHECKS = {"separates_reasoning", "echoes_reasoning", "runs_tools", "never_leaks_api_key"}
"""The promises that a dialect or another way to authenticate can break."""
STREAMING = pytest.mark.req("PRV-1", "PRV-2")
ABORTING = pytest.mark.req("PRV-1", "PRV-3")
FAILING = pytest.mark.req("PRV-1", "PRV-4")
SHOWN = {
    "preserves_signatures": pytest.mark.req("RSN-1"),
    "echoes_reasoning": pytest.mark.req("RSN-1", "RSN-2"),
    "cancels_request_when_closed": ABORTING,
    "cancels_request_with_its_task": ABORTING,
    "continues_after_abort": ABORTING,
    "isolates_concurrent_responses": pytest.mark.req("PRV-8"),
    "compacts_after_overflow": pytest.mark.req("CMP-9"),
    "runs_tools": pytest.mark.req("CMP-4"),
    **{check.__name__: FAILING for check in FAILURE_CHECKS},
}


CASES = [
    pytest.param(check, marks=SHOWN.get(check.__name__, STREAMING), id=check.__name__)
    for check in PROVIDER_CHECKS
]


@pytest.mark.parametrize("check", CASES)
@pytest.mark.parametrize("harness", FORMATS.values(), ids=FORMATS.keys())
async def test_an_adapter_keeps_the_contract(harness: HttpHarness, check: Check) -> None:
    await check(harness)


@pytest.mark.parametrize("check", [case for case in CASES if case.id in DIALECT_CHECKS])
@pytest.mark.parametrize("harness", DIALECTS.values(), ids=DIALECTS.keys())
async def test_a_dialect_keeps_what_it_can_break(harness: HttpHarness, check: Check) -> None:
    await check(harness)


class ScriptedHarness:
    """Has the scripted provider say what a server would."""

    capabilities = ApiCapabilities(thinking=True, signatures=True, cache_writes=True)
    model = "scripted"

    @asynccontextmanager
    async def provider(self, *replies: ModelReply) -> AsyncIterator[Provider]:
        yield ScriptedProvider(map(steps, replies))


def steps(reply: ModelReply) -> list[ScriptedStep]:
    reason = reply.reason or (StopReason.TOOL_CALLS if reply.calls else StopReason.DONE)
    seal = [ReasoningChunk(index=0, signature=reply.signature)] if reply.signature else []
    return [
        *(ReasoningChunk(index=0, text=thought) for thought in reply.thoughts),
        *seal,
        *map(TextChunk, reply.words),
        *(
            CallChunk(index=index, call_id=call.call_id, name=call.name, arguments=call.arguments)
            for index, call in enumerate(reply.calls)
        ),
        Finished(reason=reason, usage=reply.usage),
    ]


@pytest.mark.req("PRV-1", "PRV-2")
@pytest.mark.parametrize("check", ANSWER_CHECKS, ids=lambda check: check.__name__)
async def test_the_scripted_provider_answers_like_any_other(check: AnswerCheck) -> None:
    await check(ScriptedHarness())
