"""A second call that adds what the draft of a summary left out."""

from typing import Any

import pytest

from clew import Session
from clew.context.policy import ContextPolicy, Thresholds
from clew.core.entries import Charged, Compacted
from clew.core.errors import ProviderError
from clew.core.events import CompactionEnded, Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.extensions.commands.entries import format_loss, loss_data
from clew.providers.prices import Price
from clew.providers.scripted import ScriptedProvider, ScriptedReply, text_reply

pytestmark = [pytest.mark.anyio, pytest.mark.req("CMP-7", "CMP-8")]

LONG = "word " * 250
FACTS = ModelFacts(name="m", window=6_000)
POLICY = ContextPolicy(verify_summary=True, thresholds=Thresholds(compact=False))
USED = Usage(input_tokens=2_000_000)


async def _compact(
    *replies: ScriptedReply, policy: ContextPolicy = POLICY
) -> tuple[Compacted, ScriptedProvider, Session, list[Any]]:
    provider = ScriptedProvider([*[LONG] * 5, *replies], FACTS)
    prices = {"m": Price(input=1.0, output=1.0)}
    seen: list[Any] = []
    async with Session(provider, model="m", policy=policy, prices=prices) as session:
        session.on("compaction", seen.append)
        session.on("warning", seen.append)
        for number in range(5):
            await session.run(f"question {number}")
        done = await session.compact()
    return done, provider, session, seen


async def test_the_points_that_a_check_finds_are_added_and_reported_with_their_cost() -> None:
    answer = text_reply("- The user asked for port 8080.\n- Tests fail on Windows.", usage=USED)
    done, provider, session, seen = await _compact("The draft.", answer)

    assert "The draft." in done.summary
    assert "- The user asked for port 8080.\n- Tests fail on Windows." in done.summary
    prompt = provider.requests[-1].messages[0].text
    assert "The draft." in prompt
    assert "question 0" in prompt
    check = done.report.check
    assert check is not None
    assert check.added == ("The user asked for port 8080.", "Tests fail on Windows.")
    assert (check.cost, check.usage, check.fault) == (2.0, USED, "")
    event = next(event for event in seen if isinstance(event, CompactionEnded))
    assert event.report.check == check
    charges = [e.body for e in session.journal.entries if isinstance(e.body, Charged)]
    assert [(charge.why, charge.cost) for charge in charges][-1] == ("a check of a summary", 2.0)
    assert "checked     2 points added for $2.0000" in format_loss(done.report)
    assert "check" in loss_data(done)


async def test_a_complete_draft_stays_as_it_is() -> None:
    done, *_ = await _compact("The draft.", "NOTHING")

    assert done.report.check is not None
    assert done.report.check.added == ()
    assert "check of these notes" not in done.summary


@pytest.mark.parametrize("fault", [ProviderError("down", provider="s"), ""])
async def test_a_failed_check_never_fails_the_compaction(fault: ScriptedReply) -> None:
    done, _, _, seen = await _compact("The draft.", fault)

    assert "The draft." in done.summary
    assert done.report.author == "model"
    assert done.report.check is not None
    assert done.report.check.fault == ("down" if fault else "")
    warnings = [event.text for event in seen if isinstance(event, Warned)]
    assert warnings == (["the summary was not checked completely: down"] if fault else [])


async def test_points_without_room_are_counted_and_left_out() -> None:
    long = "- " + "word " * 3_000 + "\n- Use uv."
    done, *_ = await _compact("The draft.", long)

    assert done.report.check is not None
    assert done.report.check.added == ("Use uv.",)
    assert done.report.check.left_out == 1
    assert "1 more did not fit" in "\n".join(format_loss(done.report))


async def test_no_check_is_made_by_default() -> None:
    by_hand = ContextPolicy(thresholds=Thresholds(compact=False))
    done, provider, *_ = await _compact("The draft.", policy=by_hand)

    assert len(provider.requests) == 6
    assert done.report.check is None
    assert "check" not in loss_data(done)
