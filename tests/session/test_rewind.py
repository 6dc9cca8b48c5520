"""Going back: the conversation, the files, or both, and taking that back again."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import Session, tool
from clew.checkpoints.values import CheckpointLimits
from clew.context.render import find_problems
from clew.context.view import View, advance, fold
from clew.core.entries import (
    Body,
    Cleared,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    ReasoningDropped,
    Rewound,
    SetupChanged,
    Undone,
    decode,
    encode,
)
from clew.core.errors import (
    AbortError,
    AlreadyRunning,
    ConfigError,
    NothingToUndo,
    ProviderRejected,
    SessionError,
)
from clew.core.events import EntryAdded, Event, ToolEnded, Warned
from clew.core.ids import EntryId
from clew.core.messages import Message, Reasoning, Role, Text, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode, Risk
from clew.core.usage import Usage
from clew.importers.clew_jsonl import export_jsonl, parse
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.sdk.entries import format_entries
from clew.session.gate import Gate
from clew.session.rewind import find_cut_before
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.protocol import Tool
from tests.event_buses import bus_for
from tests.histories import SETUP, entries_of, histories, turns

pytestmark = [pytest.mark.anyio, pytest.mark.req("CKP-1")]

FACTS = ModelFacts(name="m", window=50_000)


@tool(risk=Risk.INSPECT)
def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


def writing(name: str, content: str) -> ScriptedReply:
    return call_reply(("Write", {"file_path": name, "content": content}))


class Stage:
    """Sessions over one project, one store, and one folder of checkpoints."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.root.mkdir()
        self.kept: Path | None = base / "kept"
        self.limits = CheckpointLimits()
        self.events: list[Event] = []
        self.provider = ScriptedProvider([])
        self.tools: Sequence[Tool] = [*builtin_tools(), look]

    def session(self, *replies: ScriptedReply, store: Store | None = None) -> Session:
        self.provider = ScriptedProvider(replies, facts=FACTS)
        return Session(
            self.provider,
            model="m",
            cwd=self.root,
            tools=self.tools,
            gate=Gate(cwd=self.root, mode=PermissionMode.ACCEPT_EDITS),
            checkpoints=self.kept,
            checkpoint_limits=self.limits,
            session_id="s",
            event_bus=bus_for(self.events.append),
            store=store or MemoryStore(),
        )

    def file(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def said(session: Session) -> list[str]:
    return [
        message.text
        or "/".join([*(c.name for c in message.calls), *(r.name for r in message.results)])
        for message in session.get_history()
    ]


def prompts(session: Session) -> list[EntryId]:
    return [
        entry.id
        for entry in session.journal.entries
        if isinstance(entry.body, MessageAdded) and entry.body.message.role is Role.USER
    ]


async def test_the_conversation_goes_back_and_nothing_is_lost(stage: Stage) -> None:
    async with stage.session("one", "two", "three", "another three") as session:
        for text in ["first", "second", "third"]:
            await session.run(text)
        state = session.get_context_state()
        entries = list(session.journal.entries)

        done = await session.rewind(prompts(session)[2], code=False)

        assert said(session) == ["first", "one", "second", "two"]
        assert session.journal.entries == [*entries, done.entry]
        assert done.before == prompts(session)[2]
        assert session.get_context_state().used_tokens < state.used_tokens
        assert session.search("third")

        await session.run("third, otherwise")

        assert [message.text for message in stage.provider.requests[-1].messages] == [
            "first",
            "one",
            "second",
            "two",
            "third, otherwise",
        ]


async def test_undo_takes_a_rewind_back_and_later_messages_stay(stage: Stage) -> None:
    async with stage.session("one", "two", "three") as session:
        await session.run("first")
        await session.run("second")
        await session.rewind(prompts(session)[0], code=False)
        await session.run("third")

        undone = await session.undo()

        assert isinstance(undone.body, Rewound)
        assert said(session) == ["first", "one", "second", "two", "third", "three"]
        with pytest.raises(NothingToUndo):
            await session.undo()


async def test_a_rewind_reaches_what_an_earlier_rewind_left_behind(stage: Stage) -> None:
    async with stage.session("one", "two", "three") as session:
        await session.run("first")
        await session.run("second")
        await session.rewind(prompts(session)[0], code=False)
        await session.run("third")

        await session.rewind(EntryId(prompts(session)[1] + 1), code=False)

        assert said(session) == ["first", "one", "second"]


async def test_a_rewind_is_refused_while_the_session_runs(stage: Stage) -> None:
    pause = Pause()
    async with (
        stage.session([pause, *text_reply("one")]) as session,
        anyio.create_task_group() as g,
    ):
        g.start_soon(session.run, "first")
        with anyio.fail_after(60):
            await pause.reached.wait()
        entries = list(session.journal.entries)

        with pytest.raises(AlreadyRunning):
            await session.rewind(1)

        assert session.journal.entries == entries
        assert len(await session.list_checkpoints()) == 1
        pause.release()


async def test_a_tool_loop_is_never_cut_in_two(stage: Stage) -> None:
    calls = call_reply(("look", {"where": "a"}), ("look", {"where": "b"}))
    async with stage.session(calls, call_reply(("look", {"where": "c"})), "done", "on") as session:
        await session.run("go")
        start = prompts(session)[0]
        assert said(session) == ["go", "look/look", "look", "look", "look", "look", "done"]

        for inside, whole, left in [
            (start + 2, start + 1, 1),
            (start + 3, start + 1, 1),
            (start + 4, start + 4, 4),
            (start + 5, start + 4, 4),
            (start + 6, start + 6, 6),
        ]:
            done = await session.rewind(inside, code=False)
            assert done.before == whole
            assert len(said(session)) == left
            assert find_problems(session.get_history()) == []
            await session.undo()

        await session.rewind(start + 3, code=False)
        await session.run("and then?")

        assert find_problems(list(stage.provider.requests[-1].messages)) == []


async def test_how_the_session_works_is_not_rewound(stage: Stage) -> None:
    async with stage.session("one", "two", "three") as session:
        await session.run("first")
        await session.run("second")
        other = ScriptedProvider([], facts=ModelFacts(name="other", window=60_000))
        await session.set_model("other", provider=other)
        await session.set_permission_mode(PermissionMode.PLAN)
        await session.pin(prompts(session)[0])
        await session.pin(prompts(session)[1])
        spent = session.get_cost()
        setup = session.journal.view.setup

        await session.rewind(prompts(session)[1], code=False)

        view = session.journal.view
        assert (view.setup, view.mode) == (setup, PermissionMode.PLAN)
        assert setup.model.name == "other"
        assert view.pinned == set(prompts(session))
        assert session.get_cost() == spent
        assert view == fold(session.journal.entries, meter=view.meter)


async def test_a_compaction_is_not_in_force_before_it_was_made(stage: Stage) -> None:
    async with stage.session(*["answer " * 300] * 8, "the summary", "last") as session:
        for number in range(8):
            await session.run(f"question {number} " + "word " * 300)
        whole = said(session)
        compaction = await session.compact()
        assert len(said(session)) < len(whole)
        made = session.journal.entries[-1].id
        assert session.journal.entries[-1].body == compaction
        await session.run("later")

        await session.rewind(made, code=False)

        assert said(session) == whole
        await session.undo()
        assert said(session)[-1] == "last"
        await session.undo()
        assert said(session) == [*whole, "later", "last"]


async def test_the_count_of_before_is_the_count_again(stage: Stage) -> None:
    one = text_reply("one", usage=Usage(input_tokens=40, output_tokens=2))
    two = text_reply("two", usage=Usage(input_tokens=60, output_tokens=2))
    async with stage.session(one, two) as session:
        await session.run("first")
        state = session.get_context_state()
        await session.run("second")

        await session.rewind(prompts(session)[1], code=False)

        assert session.get_context_state() == state


async def test_code_and_conversation_go_back_together(stage: Stage) -> None:
    (stage.root / "f").write_text("old")
    read = call_reply(("Read", {"file_path": "f"}))
    async with stage.session(
        read, writing("f", "new"), "one", writing("d/g", "made"), "two"
    ) as session:
        await session.run("change f")
        await session.run("make g")
        first, second = prompts(session)

        done = await session.rewind(second)
        assert (stage.file("f"), stage.file("d/g")) == ("new", None)
        assert not (stage.root / "d").exists()
        assert said(session)[-1] == "one"
        assert sorted(done.files.restored) == [str(stage.root / "d"), str(stage.root / "d/g")]
        assert done.entry is not None
        assert done.entry.body == Rewound(before=second, files=done.files.restored)

        await session.rewind(first)
        assert stage.file("f") == "old"
        assert said(session) == []

        await session.undo()
        assert (stage.file("f"), stage.file("d/g")) == ("new", None)
        await session.undo()
        assert (stage.file("f"), stage.file("d/g")) == ("new", "made")
        assert said(session)[-1] == "two"


async def test_the_conversation_alone_leaves_files_alone(stage: Stage) -> None:
    async with stage.session(writing("f", "new"), "one") as session:
        await session.run("make f")

        done = await session.rewind(prompts(session)[0], code=False)

        assert stage.file("f") == "new"
        assert done.files.restored == ()
        await session.undo()
        assert stage.file("f") == "new"


async def test_code_alone_leaves_the_conversation_alone_and_tells_the_model(stage: Stage) -> None:
    async with stage.session(writing("f", "new"), "one", "two", "three") as session:
        await session.run("make f")
        history = session.get_history()

        done = await session.rewind(prompts(session)[0], conversation=False)

        assert stage.file("f") is None
        assert session.get_history() == history
        assert done.before is None
        assert done.entry is not None
        assert done.entry.body == Rewound(files=(str(stage.root / "f"),))
        await session.run("what now?")
        asked = stage.provider.requests[-1].messages[-1].text
        assert f"set these files back to an earlier state: {stage.root / 'f'}." in asked

        await session.undo()
        assert stage.file("f") == "new"
        await session.run("and now?")
        assert "set these files back" in stage.provider.requests[-1].messages[-1].text


async def test_many_files_are_told_of_in_few_words(stage: Stage) -> None:
    calls = [("Write", {"file_path": f"f{n}", "content": "x"}) for n in range(30)]
    async with stage.session(call_reply(*calls), "one", "two") as session:
        await session.run("make many")
        await session.rewind(prompts(session)[0], conversation=False)
        await session.run("what now?")

        assert " and 10 more. Read them again" in stage.provider.requests[-1].messages[-1].text


async def test_code_goes_back_by_whole_turns(stage: Stage) -> None:
    async with stage.session(writing("f", "1"), writing("g", "2"), "one") as session:
        await session.run("make f and g")
        prompt = prompts(session)[0]

        done = await session.rewind(prompt + 3)

        assert done.before == prompt
        assert (stage.file("f"), stage.file("g")) == (None, None)
        assert said(session) == []


async def test_what_came_between_two_turns_belongs_to_neither(stage: Stage) -> None:
    async with stage.session(writing("f", "1"), "one", "two") as session:
        await session.run("make f")
        await session.add_history_entry("note", "all is well")
        note = session.journal.entries[-1].id
        await session.run("go on")

        done = await session.rewind(note)

        assert done.before == note
        assert stage.file("f") == "1"
        assert said(session)[-1] == "one"


async def test_code_alone_with_nothing_to_restore_leaves_no_trace(stage: Stage) -> None:
    async with stage.session("one") as session:
        await session.run("hello")
        entries = list(session.journal.entries)

        done = await session.rewind(prompts(session)[0], conversation=False)

        assert done.entry is None
        assert session.journal.entries == entries
        assert len(await session.list_checkpoints()) == 1


async def test_what_somebody_else_changed_is_named_and_can_be_forced(stage: Stage) -> None:
    async with stage.session(writing("f", "1"), writing("g", "2"), "one") as session:
        await session.run("make f and g")
        (stage.root / "f").write_text("mine")

        done = await session.rewind(prompts(session)[0])

        assert [skip.path for skip in done.files.skipped] == [str(stage.root / "f")]
        assert (stage.file("f"), stage.file("g")) == ("mine", None)
        assert said(session) == []
        again = await session.rewind(prompts(session)[0], force=True)
        assert again.files.skipped == ()
        assert stage.file("f") is None
        await session.undo()
        assert stage.file("f") == "mine"

        (stage.root / "g").write_text("mine too")
        await session.undo()
        assert stage.file("g") == "mine too"
        assert f"{stage.root / 'g'} is not restored: " in "\n".join(stage.warnings)
        assert said(session)[-1] == "one"


async def test_what_cannot_be_done_is_said_and_nothing_is_changed(stage: Stage) -> None:
    stage.limits = CheckpointLimits(checkpoints=1)
    async with stage.session(writing("f", "1"), "one", "two") as session:
        await session.run("make f")
        await session.run("go on")
        entries = list(session.journal.entries)

        with pytest.raises(SessionError, match="no entry #99"):
            await session.rewind(99)
        with pytest.raises(SessionError, match="code, conversation or both"):
            await session.rewind(2, code=False, conversation=False)
        with pytest.raises(SessionError, match="nothing older is kept"):
            await session.rewind(prompts(session)[0])

        assert session.journal.entries == entries
        assert stage.file("f") == "1"


async def test_without_a_folder_for_files_only_words_go_back(stage: Stage) -> None:
    stage.kept = None
    async with stage.session(writing("f", "1"), "one") as session:
        await session.run("make f")

        assert await session.list_checkpoints() == []
        with pytest.raises(ConfigError, match="code=False"):
            await session.rewind(prompts(session)[0])
        await session.rewind(prompts(session)[0], code=False)

        assert said(session) == []


async def test_every_prompt_has_a_checkpoint_however_it_ends(stage: Stage) -> None:
    pause = Pause()
    broken = ProviderRejected("no", provider="scripted")
    async with stage.session("one", broken, writing("f", "1"), [pause], "five") as session:
        await session.run("only talk")
        with pytest.raises(ProviderRejected):
            await session.run("fail")

        async def run() -> None:
            with pytest.raises(AbortError):
                await session.run("make f, then hang")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(60):
                await pause.reached.wait()
            session.abort()
        await session.run_tool("Write", '{"file_path": "g", "content": "2"}', said="!write g")

        found = await session.list_checkpoints()
        assert [one.words for one in found] == [
            "only talk",
            "fail",
            "make f, then hang",
            "!write g",
        ]
        assert [one.entry for one in found] == prompts(session)
        assert [[file.added for file in one.files] for one in found] == [[], [], [1], [1]]
        (stage.root / "f").write_text("by hand, after the abort")
        assert len((await session.rewind(found[2].entry)).files.skipped) == 1
        assert stage.file("g") is None


async def test_a_file_that_cannot_be_kept_is_not_written(stage: Stage) -> None:
    (stage.root / "f").write_text("old")
    replies = [call_reply(("Read", {"file_path": "f"})), writing("f", "new"), "oh"]
    async with stage.session(*replies) as session:
        assert stage.kept is not None
        (stage.kept / "s").mkdir(parents=True)
        (stage.kept / "s" / "blobs").write_text("in the way")

        await session.run("change f")

        ended = [event for event in stage.events if isinstance(event, ToolEnded)]
        assert ended[-1].failed
        assert "cannot be kept for a rewind" in ended[-1].display
        assert stage.file("f") == "old"


async def test_a_file_too_large_to_keep_is_told_of(stage: Stage) -> None:
    stage.limits = CheckpointLimits(file_bytes=3)
    (stage.root / "f").write_text("large")
    replies = [call_reply(("Read", {"file_path": "f"})), writing("f", "new"), "done"]
    async with stage.session(*replies) as session:
        await session.run("change f")

    assert stage.file("f") == "new"
    assert stage.warnings == [
        f"{stage.root / 'f'} cannot be rewound: it has 5 bytes, more than are kept"
    ]


async def test_a_session_that_is_opened_again_can_be_rewound(stage: Stage, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    async with stage.session(writing("f", "1"), "one", store=store) as session:
        await session.run("make f")
    async with stage.session("two", store=store) as session:
        await session.run("go on")
        first = prompts(session)[0]
        await session.rewind(first)
        assert stage.file("f") is None
        view = session.journal.view
    async with stage.session(store=store) as session:
        assert session.journal.view == view
        await session.undo()
        assert stage.file("f") == "1"
        assert said(session)[-1] == "two"
    stage.kept = None
    async with stage.session(store=store) as session:
        await session.rewind(first, code=False)
        await session.undo()
    await store.aclose()


async def test_files_stay_where_nothing_keeps_them_any_more(stage: Stage, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    async with stage.session(writing("f", "1"), "one", store=store) as session:
        await session.run("make f")
        await session.rewind(prompts(session)[0])
    stage.kept = None
    async with stage.session(store=store) as session:
        await session.undo()

        assert said(session)[-1] == "one"
    await store.aclose()
    assert stage.file("f") is None
    assert stage.warnings == ["files are not restored: this session keeps no checkpoints now"]


async def test_files_stay_when_what_a_rewind_replaced_is_no_longer_kept(stage: Stage) -> None:
    stage.limits = CheckpointLimits(checkpoints=2)
    async with stage.session(writing("f", "1"), "one", "two", "three") as session:
        await session.run("make f")
        await session.rewind(prompts(session)[0])
        await session.run("go on")
        await session.run("and on")
        await session.undo()

        assert said(session) == [
            "make f",
            "Write",
            "Write",
            "one",
            "go on",
            "two",
            "and on",
            "three",
        ]
    assert stage.file("f") is None
    assert stage.warnings == ["files are not restored: the checkpoint of this rewind was deleted"]


async def test_a_session_that_keeps_files_from_now_on_cannot_restore_older_ones(
    stage: Stage, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    kept, stage.kept = stage.kept, None
    async with stage.session(writing("f", "1"), "one", store=store) as session:
        await session.run("make f")
    stage.kept = kept
    async with stage.session(writing("g", "2"), "two", store=store) as session:
        await session.run("make g")
        first, second = prompts(session)

        with pytest.raises(SessionError, match="nothing older is kept"):
            await session.rewind(first)
        await session.rewind(second)

        assert (stage.file("f"), stage.file("g")) == ("1", None)
    await store.aclose()


async def test_an_entry_tells_of_a_rewind(stage: Stage) -> None:
    async with stage.session(writing("f", "1"), "one") as session:
        await session.run("make f")
        await session.rewind(prompts(session)[0])
        await session.undo()
        await session.rewind(prompts(session)[0], code=False)
        await session.undo()
        await session.rewind(prompts(session)[0], conversation=False)

        told = [line.partition(": ")[2] for line in format_entries(session.journal.entries, 5)]
        assert told[0] == "the conversation went back to before #2, and 1 file was restored"
        assert told[2] == "the conversation went back to before #2"
        assert told[4] == "1 file was restored"
        shown = [event.entry for event in stage.events if isinstance(event, EntryAdded)]
        assert isinstance(shown[-1].body, Rewound)


@pytest.mark.parametrize("body", [Rewound(before=EntryId(3)), Rewound(files=("a", "b"))])
def test_a_rewind_is_read_back_equal(body: Rewound) -> None:
    entry = Entry(id=EntryId(9), at=1.0, body=body)

    assert decode(encode(entry)) == entry


def test_thinking_that_a_provider_refused_is_not_sent_again() -> None:
    thought = Reasoning(text="hm", provenance="p", signature="c2ln")
    answer = Message(role=Role.ASSISTANT, parts=(thought, Text("yes")))
    bodies: list[Body] = [
        SETUP,
        MessageAdded(message=user("one")),
        MessageAdded(message=answer),
        MessageAdded(message=user("two")),
        ReasoningDropped(targets=(EntryId(3),), why="refused"),
        MessageAdded(message=assistant("well")),
        Rewound(before=EntryId(4)),
    ]

    view = fold(entries_of(bodies))

    assert [item.message for item in view.items] == [user("one"), assistant("yes")]


def test_a_recorded_rewind_does_as_it_says() -> None:
    bodies: list[Body] = [
        SETUP,
        MessageAdded(message=user("one")),
        MessageAdded(message=assistant("1")),
        MessageAdded(message=user("two")),
        Rewound(before=EntryId(4)),
        MessageAdded(message=user("three")),
    ]

    recorded = parse(export_jsonl(entries_of(bodies)).splitlines())

    assert [step.message.text for step in recorded.steps] == ["one", "1", "three"]


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """Turns with clears, undos, pins, rewinds and changes of the setup between them."""
    entries = entries_of([SETUP])
    for _ in range(draw(st.integers(2, 9))):
        view = fold(entries)
        what = draw(
            st.sampled_from(["turn", "turn", "turn", "clear", "undo", "pin", "rewind", "other"])
        )
        bodies: list[Body] = []
        if what == "turn":
            bodies = list(draw(turns()))
        elif what == "clear":
            bodies = [Cleared()]
        elif what == "undo" and view.undoable:
            bodies = [Undone(target=view.undoable[-1])]
        elif what == "pin" and len(view.items):
            bodies = [PinChanged(target=view.items[0].entry_id, pinned=draw(st.booleans()))]
        elif what == "rewind":
            place = find_cut_before(entries, EntryId(draw(st.integers(1, len(entries)))))
            bodies = [Rewound(before=draw(st.sampled_from([place, place, None])))]
        elif what == "other":
            bodies = [Noted(topic="t", text="x"), ModeChanged(mode="plan"), SETUP]
        entries += entries_of(bodies, start=len(entries) + 1)
    return entries


@given(journals())
def test_the_live_view_equals_the_fold_of_the_journal(entries: list[Entry]) -> None:
    view = View()
    for length in range(1, len(entries) + 1):
        view = advance(view, entries[:length])

        assert view == fold(entries[:length])
        assert fold(entries[:length]).undoable == tuple(sorted(view.undoable))


@given(journals(), st.data())
def test_the_view_is_what_it_was_and_an_undo_brings_all_back(
    entries: list[Entry], data: st.DataObject
) -> None:
    now = fold(entries)
    place = find_cut_before(entries, EntryId(data.draw(st.integers(1, len(entries)))))
    then = fold(entries[: place - 1])
    rewound = [*entries, *entries_of([Rewound(before=place)], start=len(entries) + 1)]

    after = fold(rewound)

    assert after.items == then.items
    assert after.archived == then.archived
    assert after.undoable == (*then.undoable, rewound[-1].id)
    assert (after.setup, after.mode) == (now.setup, now.mode)
    assert [
        p for p in find_problems([item.message for item in after.items]) if "missing" in p
    ] == []
    undone = [*rewound, *entries_of([Undone(target=rewound[-1].id)], start=len(rewound) + 1)]
    back = fold(undone)
    assert (back.items, back.archived, back.pinned) == (now.items, now.archived, now.pinned)
    assert back.undoable == now.undoable


@given(histories(min_turns=1), st.data())
def test_a_place_in_a_history_is_moved_no_further_than_it_must(
    entries: list[Entry], data: st.DataObject
) -> None:
    wanted = EntryId(data.draw(st.integers(1, len(entries))))

    place = find_cut_before(entries, wanted)

    assert place <= wanted
    assert find_cut_before(entries, place) == place
    between = [entry.body for entry in entries if place <= entry.id < wanted]
    kinds = [body.message.role for body in between if isinstance(body, MessageAdded)]
    assert kinds[1:] == [Role.TOOL] * len(kinds[1:])


def test_a_setup_from_the_time_between_stays_in_force() -> None:
    other = SetupChanged(model=ModelFacts(name="other"))
    bodies: list[Body] = [SETUP, MessageAdded(message=user("one")), other]

    view = fold(entries_of([*bodies, Rewound(before=EntryId(1))]))

    assert view.setup == other
    assert len(view.items) == 0
