"""Protected results stay; edited files are written out again after a compaction."""

import pytest
from msgspec import json

from clew.context.clearing_plan import plan_clearing, plan_squeeze
from clew.context.compaction_plan import compact_by_rules, plan_without_summary
from clew.context.digest.steps.step_log import StepLog
from clew.context.file_versions import RESTORED_HEADING, find_versions
from clew.context.policy import ContextPolicy
from clew.context.protected import choose_protected, find_protected
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.core.entries import Body, Compacted, Entry, MessageAdded, SetupChanged
from clew.core.errors import ConfigError
from clew.core.ids import CallId, EntryId
from clew.core.messages import ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from tests.rows import each_row

WINDOW = SetupChanged(model=ModelFacts(name="m", window=6_000))


def called(name: str, result: str, **arguments: object) -> list[Body]:
    text = json.encode(arguments).decode()
    call = ToolCall(call_id=CallId(f"{name}{text}{len(result)}"), name=name, arguments=text)
    answer = tool_result(call, result)
    return [MessageAdded(message=assistant(call)), MessageAdded(message=answer)]


def view_of(*bodies: Body, setup: SetupChanged = WINDOW) -> View:
    said = [setup, MessageAdded(message=user("go")), *bodies]
    return fold(Entry(id=EntryId(n), at=0.0, body=b) for n, b in enumerate(said, start=1))


def shown(view: View, body: Compacted) -> View:
    return view.apply(Entry(id=EntryId(10_000), at=0.0, body=body))


def numbered(text: str) -> str:
    return "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(text.splitlines(), start=1))


FILLER = [
    body
    for n in range(30)
    for body in called("Grep", f"{n} some words that were found; " * 25, pattern=f"p{n}")
]


@pytest.mark.req("CMP-14")
@each_row(
    ("rule", "found"),
    [
        ("Read", [4, 6]),
        ("read", [4, 6]),
        ("docs/spec.md", [4]),
        ("./docs/spec.md", [4]),
        ("spec.md", [4]),
        ("*.py", [6]),
        ("Bash(git diff*)", [8]),
        ("Bash(git push*)", []),
        ("mcp__github__*", [10]),
        ("src/*", [6]),
        ("*(src/a.py)", [6]),
    ],
)
def test_a_rule_names_a_tool_a_path_or_both(rule: str, found: list[int]) -> None:
    view = view_of(
        *called("Read", "spec", file_path="/p/docs/spec.md"),
        *called("Read", "code", file_path="src/a.py", limit=9),
        *called("Bash", "diff", command="git diff HEAD"),
        *called("mcp__github__issues", "one"),
        *called("Read", "", file_path="src/b.py")[:1],
    )

    assert sorted(find_protected(view, [rule])) == found


@pytest.mark.parametrize(
    ("rule", "found"),
    [("mcp__github__*", [4]), ("mcp__github__read(*.md)", [4]), ("CallMcpTool", [6])],
)
def test_a_call_on_demand_counts_as_that_of_its_tool(rule: str, found: list[int]) -> None:
    inner = {"path": "docs/spec.md"}
    view = view_of(
        *called("CallMcpTool", "spec", tool="mcp__github__read", arguments=inner),
        *called("CallMcpTool", "failed", tool=3),
    )

    assert sorted(find_protected(view, [rule])) == found


def test_an_empty_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="`protect` is empty"):
        ContextPolicy(protect=("Read", " "))


def test_clearing_leaves_protected_results_and_skills_alone() -> None:
    view = view_of(
        *called("Read", "spec " * 200, file_path="docs/spec.md"),
        *called("Read", "code " * 200, file_path="a.py"),
        *called("ExecuteCommand", "Do this. " * 100, command="greet"),
        *called("ExecuteCommand", "3 % used", command="context"),
        MessageAdded(message=assistant("Read.")),
    )
    policy = ContextPolicy(compress_tool_results=5, protect=("docs/*",))

    body = plan_clearing(view, policy, Tiered(), now=0.0)

    assert body is not None
    assert [change.entry_id for change in body.replaced] == [6, 10]
    rest = plan_without_summary(view, protect=policy.protect)
    assert [change.entry_id for change in rest.replaced] == [6]


def test_a_compaction_keeps_the_latest_protected_result_word_for_word() -> None:
    old, new = ("first version " * 30, "second version " * 30)
    view = view_of(
        *called("Read", old, file_path="spec.md"),
        *called("Read", new, file_path="spec.md"),
        *FILLER,
        MessageAdded(message=user("next")),
    )

    body = compact_by_rules(view, ContextPolicy(protect=("spec.md",)), Tiered())

    assert isinstance(body, Compacted)
    texts = [r.text for item in shown(view, body).items for r in item.message.results]
    assert new in texts
    assert old not in texts
    assert "not fit" not in body.report.why


def test_protected_results_that_do_not_fit_are_summarised_and_the_report_says_so() -> None:
    view = view_of(
        *called("Read", "a long specification " * 400, file_path="spec.md"),
        *called("Read", "a short note", file_path="note.md"),
        *FILLER,
        MessageAdded(message=user("next")),
    )

    body = compact_by_rules(view, ContextPolicy(protect=("*.md",)), Tiered())

    assert isinstance(body, Compacted)
    assert "1 protected result does not fit" in body.report.why
    texts = [r.text for item in shown(view, body).items for r in item.message.results]
    assert "a short note" in texts


def test_what_fits_is_chosen_newest_first() -> None:
    view = view_of(
        *called("Read", "one " * 100, file_path="a.md"), *called("Read", "two " * 100, path="b.md")
    )
    size = view.items[3].units + view.items[4].units

    chosen = choose_protected(view, ["Read"], room=size)

    assert (chosen.kept, chosen.left_out) == (frozenset({EntryId(6)}), 1)


def test_results_are_chosen_from_a_view_that_has_grown_as_from_a_new_one() -> None:
    view = view_of(*called("Read", "one " * 100, file_path="a.md"))
    before = choose_protected(view, ["Read"], room=10_000)

    for number, body in enumerate(called("Read", "two " * 100, path="b.md"), start=5):
        view = view.apply(Entry(id=EntryId(number), at=0.0, body=body))
    grown = choose_protected(view, ["Read"], room=10_000)

    assert before.kept == {EntryId(4)}
    assert grown.kept == {EntryId(4), EntryId(6)}


def test_protected_results_are_shortened_last() -> None:
    view = view_of(
        *called("Read", "a specification " * 200, file_path="spec.md"),
        *called("Grep", "something found " * 300, pattern="x"),
    )

    some = plan_squeeze(view, excess=250, protect=["spec.md"])
    many = plan_squeeze(view, excess=1_400, protect=["spec.md"])
    nothing = plan_squeeze(view_of(), excess=10, protect=["spec.md"])

    assert some is not None
    assert [change.entry_id for change in some.replaced] == [6]
    assert many is not None
    assert {change.entry_id for change in many.replaced} >= {4}
    assert nothing is None


TEXT = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"


def versions(*bodies: Body) -> dict[str, str]:
    log = StepLog()
    log.extend(view_of(*bodies).items)
    return {one.path: one.text for one in find_versions(log)}


@each_row(
    ("steps", "text"),
    [
        ([], TEXT),
        (
            [("Edit", {"old_string": "def g", "new_string": "def h"})],
            TEXT.replace("def g", "def h"),
        ),
        (
            [("Edit", {"old_string": "1", "new_string": "2", "replace_all": True})],
            TEXT.replace("1", "2"),
        ),
        (
            [
                (
                    "MultiEdit",
                    {
                        "edits": [
                            {"old_string": "def f", "new_string": "def a"},
                            {"old_string": "def g", "new_string": "def b"},
                        ]
                    },
                )
            ],
            TEXT.replace("def f", "def a").replace("def g", "def b"),
        ),
        ([("Edit", {"old_string": "return 1", "new_string": "return 2"})], None),
        ([("Edit", {"old_string": "absent", "new_string": "x"})], None),
        ([("Edit", {"old_string": "", "new_string": "x"})], None),
        ([("Edit", {"instructions": "make it better"})], None),
    ],
)
def test_the_latest_version_follows_from_the_edits(
    steps: list[tuple[str, dict[str, object]]], text: str | None
) -> None:
    found = versions(
        *called("Write", "written", file_path="a.py", content=TEXT),
        *(body for name, given in steps for body in called(name, "ok", file_path="a.py", **given)),
    )

    assert found == ({"a.py": text} if text is not None else {})


def test_a_file_that_was_read_whole_is_known_and_one_that_the_shell_changed_is_not() -> None:
    read = called("Read", numbered(TEXT) + "\n\n<system-reminder>x", file_path="a.py")
    edit = called("Edit", "ok", file_path="a.py", old_string="def f", new_string="def k")
    again = called("Read", numbered("new"), file_path="a.py")

    assert versions(*read) == {}
    assert versions(*edit) == {}
    assert versions(*read, *edit) == {"a.py": TEXT.replace("def f", "def k")}
    shell = called("Bash", "", command="sed -i s/f/g/ a.py")
    assert versions(*read, *edit, *shell) == {}
    assert versions(*read, *edit, *shell, *again) == {"a.py": "new\n"}
    assert versions(*read, *edit, *called("Bash", "", command="rm a.py")) == {}


@pytest.mark.parametrize(
    "result",
    ["     1\ta\n[lines 1-1 of 9; continue with offset=2]", "     5\tfifth", "plain text"],
)
def test_a_file_that_was_read_in_part_is_not_known(result: str) -> None:
    edit = called("Edit", "ok", file_path="a.py", old_string="a", new_string="b")

    assert versions(*called("Read", result, file_path="a.py"), *edit) == {}
    cut = called("Read", "     1\taaa [cut: 9 more characters]", file_path="a.py")
    assert versions(*cut, *edit) == {}
    for part in ({"limit": 1}, {"view_range": [1, 3]}, {"startLine": 1, "endLine": 3}):
        first = called("Read", numbered("a"), file_path="a.py", **part)
        assert versions(*first, *edit) == {}
    whole = called("Read", numbered("a"), file_path="a.py", offset=1, limit=None)
    assert versions(*whole, *edit) == {"a.py": "b\n"}


def test_a_file_is_not_known_after_git_or_a_shell_may_have_changed_it() -> None:
    write = called("Write", "written", file_path="/w/app/a.py", content=TEXT)

    assert versions(*write, *called("Bash", "", command="git checkout a.py")) == {}
    assert versions(*write, *called("Bash", "", command="cd /w/app && sed -i s/f/g/ a.py")) == {}
    assert versions(*write, *called("Bash", "", command="git status")) == {"/w/app/a.py": TEXT}
    assert versions(*called("Write", "written", file_path="a.json", content={"a": 1})) == {}


def test_a_compaction_writes_out_the_files_that_are_being_edited() -> None:
    view = view_of(
        *called("Write", "written", file_path="a.py", content=TEXT),
        *called("Edit", "ok", file_path="a.py", old_string="def f", new_string="def latest"),
        *called("Write", "written", file_path="large.py", content="x = 1\n" * 3_000),
        *FILLER,
        MessageAdded(message=user("next")),
        *called("Write", "written", file_path="b.py", content="y = 2\n"),
    )

    body = compact_by_rules(view, ContextPolicy(), Tiered())

    assert isinstance(body, Compacted)
    text = body.summary.partition(RESTORED_HEADING)[2]
    assert f"### a.py\n```\n{TEXT.replace('def f', 'def latest').rstrip()}\n```" in text
    assert "large.py" not in text
    assert "b.py" not in text, "it is still in view"
    dropped = compact_by_rules(view, ContextPolicy(), SlidingWindow(max_turns=1))
    assert isinstance(dropped, Compacted)
    assert RESTORED_HEADING not in dropped.summary
