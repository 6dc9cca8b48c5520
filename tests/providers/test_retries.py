"""A provider says why it pauses, how long, and which attempt comes next."""

import pytest

from clew.providers.protocol import RetryChunk
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.provider_checks.assertions import collect_chunks
from clew.testing.provider_harness import FakeSleep, instant_retry
from clew.testing.server import Disconnect, ScriptedResponse
from tests.providers.harnesses import HARNESSES

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRV-4")]


async def test_every_pause_is_announced_before_the_answer() -> None:
    harness = HARNESSES["anthropic"]
    naps = FakeSleep()
    script = (
        harness.error_response(429, "slow down", retry_after="7"),
        harness.error_response(503, "overloaded"),
        harness.error_response(500, "oops"),
        ScriptedResponse(steps=[Disconnect()]),
        ModelReply(words=("ok",)),
    )

    async with harness.serve(*script, retry=instant_retry(naps, attempts=5)) as (provider, _):
        chunks = await collect_chunks(harness, provider)

    pauses = [chunk for chunk in chunks if isinstance(chunk, RetryChunk)]
    assert pauses == chunks[:4]
    assert [one.reason for one in pauses] == [
        "rate limited",
        "the server is overloaded",
        "the server failed (HTTP 500)",
        "the connection was lost",
    ]
    assert [(one.attempt, one.attempts) for one in pauses] == [(2, 5), (3, 5), (4, 5), (5, 5)]
    assert [one.delay for one in pauses] == naps.taken
