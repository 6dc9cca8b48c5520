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
from clew.testing.checks.failures import FAILURE_CHECKS
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

OWN = {**HARNESSES, "tiny": TINY}
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
@pytest.mark.parametrize("harness", OWN.values(), ids=OWN.keys())
async def test_the_provider_keeps_the_contract(harness: HttpHarness, check: Check) -> None:
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
