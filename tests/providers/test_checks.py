"""The conformance checks notice an adapter that breaks the contract."""

from collections.abc import Callable
from dataclasses import replace as altered
from unittest import SkipTest

import anyio
import pytest

from clew.core.errors import ProviderError
from clew.providers.protocol import Provider
from clew.testing.providers import PROVIDER_CHECKS, Powers, Setting
from tests.providers.flaws import FLAWS, changed, loosely
from tests.providers.tiny import TINY

pytestmark = pytest.mark.anyio

CHECKS = {check.__name__: check for check in PROVIDER_CHECKS}


@pytest.mark.parametrize(("name", "make"), FLAWS, ids=[name for name, _ in FLAWS])
async def test_a_flaw_is_noticed(name: str, make: Callable[[Setting], Provider]) -> None:
    stage = altered(TINY, make=make)

    # A check that would wait much longer for a sound adapter has noticed the flaw too.
    with pytest.raises((AssertionError, ProviderError, RuntimeError, TimeoutError)):
        with anyio.fail_after(1.5):
            await CHECKS[name](stage)


LOOSE = altered(TINY, make=changed(loosely), can=Powers(call_ids=False, exact_arguments=False))
ABOUT_CALLS = [
    "brings_one_call",
    "brings_parallel_calls",
    "means_the_same_in_one_piece",
    "reads_bytes_however_they_are_cut",
    "never_takes_a_part_for_the_whole",
    "keeps_answers_apart",
    "runs_tools",
    "goes_on_after_an_abort",
]


@pytest.mark.parametrize("name", ABOUT_CALLS)
async def test_an_api_without_ids_and_with_objects_for_arguments_can_pass(name: str) -> None:
    await CHECKS[name](LOOSE)


@pytest.mark.parametrize(
    ("name", "can", "missing"),
    [
        ("keeps_thinking_apart", Powers(), "thinking"),
        ("keeps_signatures", Powers(thinking=True), "signatures"),
        ("means_the_same_in_one_piece", Powers(whole=False), "answers in one piece"),
    ],
)
async def test_what_an_api_lacks_is_skipped_and_said(name: str, can: Powers, missing: str) -> None:
    with pytest.raises(SkipTest, match=missing):
        await CHECKS[name](altered(TINY, can=can))


def test_every_check_has_a_flaw_to_notice() -> None:
    assert {name for name, _ in FLAWS} == CHECKS.keys()
