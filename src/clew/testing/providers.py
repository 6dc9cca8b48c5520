"""Conformance checks for providers; run them on an adapter of your own.

An adapter that speaks HTTP needs a fake API, which encodes replies as its server would (see
`clew.testing.fake_apis.protocol`; those of the built-in adapters are in
`clew.testing.fake_apis`), and a function that creates the adapter for a server:

    HARNESS = HttpHarness(
        api=MyFakeApi(),
        make=lambda at: MyAdapter(at.url, key=at.api_key, timeout=at.idle_timeout, retry=at.retry),
        capabilities=ApiCapabilities(thinking=True, whole=False),
    )

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.__name__)
    async def test_my_adapter_keeps_the_contract(check):
        await check(HARNESS)

A provider that does not speak HTTP needs a `ProviderHarness` of its own, for which
`ANSWER_CHECKS` apply. Checks that need something the API lacks, as `ApiCapabilities` says, are
skipped.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.testing.fake_apis.protocol import FakeApi, ModelReply
from clew.testing.provider_checks.answers import ANSWER_CHECKS as _ANSWER_CHECKS
from clew.testing.provider_checks.failures import FAILURE_CHECKS
from clew.testing.provider_checks.sessions import SESSION_CHECKS
from clew.testing.provider_checks.streams import STREAM_CHECKS
from clew.testing.provider_harness import (
    AdapterParams,
    ApiCapabilities,
    HttpHarness,
    ProviderHarness,
)

__all__ = [
    "ANSWER_CHECKS",
    "PROVIDER_CHECKS",
    "AdapterParams",
    "AnswerCheck",
    "ApiCapabilities",
    "Check",
    "FakeApi",
    "HttpHarness",
    "ModelReply",
    "ProviderHarness",
]

AnswerCheck: TypeAlias = Callable[[ProviderHarness], Awaitable[None]]
Check: TypeAlias = Callable[[HttpHarness], Awaitable[None]]

ANSWER_CHECKS: tuple[AnswerCheck, ...] = _ANSWER_CHECKS
"""Checks for any provider."""
PROVIDER_CHECKS: tuple[Check, ...] = (
    *ANSWER_CHECKS,
    *STREAM_CHECKS,
    *FAILURE_CHECKS,
    *SESSION_CHECKS,
)
"""Checks for a provider over HTTP."""
