"""What every provider must do, as checks that anyone can run on their own.

An adapter that speaks HTTP needs a fake API, which encodes replies as its server would (see
`clew.testing.fake_apis.protocol`; those of the built-in adapters are in
`clew.testing.fake_apis`), and a function that creates the adapter for a server:

    STAGE = HttpStage(
        voice=MyVoice(),
        make=lambda at: MyAdapter(at.url, key=at.api_key, timeout=at.idle_timeout, retry=at.retry),
        can=Powers(thinking=True, whole=False),
    )

    @pytest.mark.anyio
    @pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.__name__)
    async def test_my_adapter_keeps_the_contract(check):
        await check(STAGE)

A provider that does not speak HTTP can be put on a `Stage` of its own, where `ANSWER_CHECKS`
apply. What an API lacks is skipped, by what `Powers` says of it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.testing.checks.answers import ANSWER_CHECKS as _ANSWER_CHECKS
from clew.testing.checks.failures import FAILURE_CHECKS
from clew.testing.checks.sessions import SESSION_CHECKS
from clew.testing.checks.streams import STREAM_CHECKS
from clew.testing.fake_apis.protocol import Reply, Voice
from clew.testing.provider_harness import HttpStage, Powers, Setting, Stage

__all__ = [
    "ANSWER_CHECKS",
    "PROVIDER_CHECKS",
    "AnswerCheck",
    "Check",
    "HttpStage",
    "Powers",
    "Reply",
    "Setting",
    "Stage",
    "Voice",
]

AnswerCheck: TypeAlias = Callable[[Stage], Awaitable[None]]
Check: TypeAlias = Callable[[HttpStage], Awaitable[None]]

ANSWER_CHECKS: tuple[AnswerCheck, ...] = _ANSWER_CHECKS
"""What holds for any provider."""
PROVIDER_CHECKS: tuple[Check, ...] = (
    *ANSWER_CHECKS,
    *STREAM_CHECKS,
    *FAILURE_CHECKS,
    *SESSION_CHECKS,
)
"""What holds for a provider that speaks HTTP."""
