"""The conformance checks notice an adapter that breaks the contract."""

from collections.abc import Callable
from dataclasses import replace as altered
from unittest import SkipTest

import anyio
import pytest

from clew.core.errors import ProviderError
from clew.providers.protocol import Provider
from clew.testing.providers import PROVIDER_CHECKS, AdapterParams, ApiCapabilities
from tests.providers.flaws import FLAWS, changed, loosely
from tests.providers.tiny import TINY

pytestmark = pytest.mark.anyio

CHECKS = {check.__name__: check for check in PROVIDER_CHECKS}


@pytest.mark.slow("waits for a time limit")
@pytest.mark.parametrize(("name", "make"), FLAWS, ids=[name for name, _ in FLAWS])
async def test_a_flaw_is_noticed(name: str, make: Callable[[AdapterParams], Provider]) -> None:
    stage = altered(TINY, make=make)

    # A check that would wait much longer for a sound adapter has noticed the flaw too.
    with pytest.raises((AssertionError, ProviderError, RuntimeError, TimeoutError)):
        with anyio.fail_after(1.5):
            await CHECKS[name](stage)


LOOSE = altered(
    TINY, make=changed(loosely), capabilities=ApiCapabilities(call_ids=False, exact_arguments=False)
)
ABOUT_CALLS = [
    "delivers_one_tool_call",
    "delivers_parallel_tool_calls",
    "matches_non_streaming_response",
    "parses_any_chunk_boundary",
    "detects_truncated_streams",
    "isolates_concurrent_responses",
    "runs_tools",
    "continues_after_abort",
]


@pytest.mark.parametrize("name", ABOUT_CALLS)
async def test_an_api_without_ids_and_with_objects_for_arguments_can_pass(name: str) -> None:
    await CHECKS[name](LOOSE)


@pytest.mark.parametrize(
    ("name", "capabilities", "missing"),
    [
        ("separates_reasoning", ApiCapabilities(), "thinking"),
        ("preserves_signatures", ApiCapabilities(thinking=True), "signatures"),
        ("matches_non_streaming_response", ApiCapabilities(whole=False), "answers in one piece"),
    ],
)
async def test_checks_for_missing_capabilities_are_skipped_with_a_reason(
    name: str, capabilities: ApiCapabilities, missing: str
) -> None:
    with pytest.raises(SkipTest, match=missing):
        await CHECKS[name](altered(TINY, capabilities=capabilities))


def test_every_check_has_a_flaw_to_notice() -> None:
    assert {name for name, _ in FLAWS} == CHECKS.keys()
