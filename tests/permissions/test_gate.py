"""The gate of a session: when it asks, what it remembers, and what it does not."""

from pathlib import Path

import pytest

from clew.core.permissions import (
    Access,
    Approval,
    Decision,
    PermissionMode,
    Risk,
    TargetKind,
    Verdict,
)
from clew.permissions.rules import parse_rule
from clew.session.gate import Gate

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-3")]
HERE = Path("/srv/project")


class Person:
    """Gives the same answer to every question, and remembers them."""

    def __init__(self, answer: Approval) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.questions: list[Decision] = []

    async def __call__(self, access: Access, decision: Decision) -> Approval:
        assert decision.verdict is Verdict.ASK
        self.asked.append(access.target)
        self.questions.append(decision)
        return self.answer


def bash(command: str) -> Access:
    return Access(tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND)


def write(path: str) -> Access:
    return Access(tool="Write", risk=Risk.MODIFY, target=path, kind=TargetKind.PATH)


def fetch(address: str) -> Access:
    return Access(tool="WebFetch", risk=Risk.EXECUTE, target=address, kind=TargetKind.ADDRESS)


async def test_without_a_user_to_ask_a_question_is_a_denial() -> None:
    decision = await Gate(cwd=HERE).judge(bash("make"))

    assert decision.verdict is Verdict.DENY
    assert "there is no user to ask" in decision.reason


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Approval.NO, Verdict.DENY),
        (Approval.ONCE, Verdict.ALLOW),
        (Approval.SESSION, Verdict.ALLOW),
        (Approval.PROJECT, Verdict.ALLOW),
    ],
)
async def test_the_answer_of_a_person_decides(answer: Approval, verdict: Verdict) -> None:
    gate = Gate(cwd=HERE, ask=Person(answer))

    decision = await gate.judge(bash("make"))

    assert decision.verdict is verdict
    assert "the user" in decision.reason
    assert bool(gate.grants) is (answer in (Approval.SESSION, Approval.PROJECT))


async def test_a_session_grant_ends_the_asking_until_it_is_taken_back() -> None:
    person = Person(Approval.SESSION)
    gate = Gate(cwd=HERE, ask=person)

    await gate.judge(bash("git status"))
    await gate.judge(bash("git status -s"))
    assert person.asked == ["git status"]
    assert [str(grant) for grant in gate.grants] == ["Bash: begins git status"]

    gate.revoke(gate.grants[0])
    gate.revoke(gate.grant(bash("ls")))
    await gate.judge(bash("git status -s"))
    assert person.asked == ["git status", "git status -s"]

    gate.clear_grants()
    assert gate.grants == []
    gate.revoke(gate.grant(bash("x")))
    assert gate.grants == []


async def test_the_same_grant_is_kept_once() -> None:
    gate = Gate(cwd=HERE)

    gate.grant(bash("git status"))
    gate.grant(bash("git status -s"))

    assert len(gate.grants) == 1


async def test_an_approval_for_the_project_comes_with_the_rules_to_store() -> None:
    gate = Gate(cwd=HERE, ask=Person(Approval.PROJECT))

    decision = await gate.judge(bash("npm test && git status"))

    assert decision.remember == ("Bash(npm test:*)", "Bash(git status:*)")
    assert (await gate.judge(bash("eval ls"))).remember == ()


@pytest.mark.parametrize(
    ("access", "scope", "rules"),
    [
        (bash("npm test -v && git status"), "Bash `npm test …` and `git status …`", 2),
        (bash("eval ls"), "just this call", 0),
        (write("a.txt"), "Write in this folder", 1),
        (write("src/a.txt"), "Write in src/", 1),
        (write("/etc/hosts"), "Write in /etc/", 1),
        (fetch("https://example.com/a"), "WebFetch from example.com", 1),
    ],
)
async def test_a_question_says_what_a_longer_approval_covers(
    access: Access, scope: str, rules: int
) -> None:
    person = Person(Approval.NO)

    await Gate(cwd=HERE, ask=person).judge(access)

    (question,) = person.questions
    assert question.session_scope == scope
    assert len(question.project_rules) == rules


async def test_a_question_by_a_rule_offers_this_call_only_and_stores_nothing() -> None:
    person = Person(Approval.PROJECT)
    gate = Gate(cwd=HERE, ask=person, ask_rules=(parse_rule("Bash(git push:*)"),))

    decision = await gate.judge(bash("git push a"))

    (question,) = person.questions
    assert (question.session_scope, question.project_rules) == ("just this call", ())
    assert decision.remember == ()


async def test_a_question_that_a_hook_demands_covers_the_same_calls() -> None:
    person = Person(Approval.SESSION)
    gate = Gate(cwd=HERE, ask=person, allow=(parse_rule("Bash(git *)"),))
    ask = Decision(Verdict.ASK, "a hook asks")

    await gate.judge(bash("git status"), wish=ask)

    assert [(each.reason, each.session_scope) for each in person.questions] == [
        ("a hook asks", "Bash `git status …`")
    ]
    assert [str(grant) for grant in gate.grants] == ["Bash: begins git status"]


async def test_a_rule_that_asks_is_asked_again_for_every_other_call() -> None:
    person = Person(Approval.SESSION)
    gate = Gate(cwd=HERE, ask=person, ask_rules=(parse_rule("Bash(git push:*)"),))

    for line in ("git push a", "git push a", "git push b"):
        assert (await gate.judge(bash(line))).verdict is Verdict.ALLOW

    assert person.asked == ["git push a", "git push b"]


@pytest.mark.req("HOK-3")
async def test_the_wish_of_a_hook_lifts_no_denial_and_quiets_no_rule_that_asks() -> None:
    person = Person(Approval.NO)
    deny, asks = (parse_rule("Bash(rm *)"),), (parse_rule("Bash(git push:*)"),)
    gate = Gate(cwd=HERE, ask=person, allow=(parse_rule("Bash(ls)"),), deny=deny, ask_rules=asks)
    yes, ask = Decision(Verdict.ALLOW, "hook"), Decision(Verdict.ASK, "hook")

    assert (await gate.judge(bash("make"), wish=yes)).verdict is Verdict.ALLOW
    assert (await gate.judge(bash("rm x"), wish=yes)).verdict is Verdict.DENY
    assert person.asked == []
    assert (await gate.judge(bash("git push"), wish=yes)).verdict is Verdict.DENY
    assert (await gate.judge(bash("ls"), wish=ask)).verdict is Verdict.DENY
    assert person.asked == ["git push", "ls"]


async def test_a_denied_call_is_not_a_question() -> None:
    person = Person(Approval.SESSION)
    gate = Gate(cwd=HERE, ask=person, deny=(parse_rule("Bash(rm *)"),))

    assert (await gate.judge(bash("rm x"))).verdict is Verdict.DENY
    gate.mode = PermissionMode.PLAN
    assert (await gate.judge(bash("ls"))).verdict is Verdict.DENY
    assert person.asked == []


async def test_the_gate_can_say_what_another_mode_would_decide() -> None:
    gate = Gate(cwd=HERE)

    assert gate.decide(bash("make")).verdict is Verdict.ASK
    assert gate.decide(bash("make"), gate.policy(PermissionMode.BYPASS)).verdict is Verdict.ALLOW
    assert gate.mode is PermissionMode.DEFAULT
