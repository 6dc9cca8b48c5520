"""Every built-in command, on real sessions: what it says, what it does, what it refuses."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.context.policy import Thresholds
from clew.core.context_state import Basis, Breakdown, ContextState, LossReport, Status
from clew.core.entries import (
    Charged,
    Compacted,
    Noted,
    PinChanged,
    ReasoningDropped,
    Replacement,
    ResultsCleared,
    Rewound,
)
from clew.core.errors import AbortError
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.permissions import Access, PermissionMode, Risk
from clew.extensions.commands.context_chart import draw_chart, share_cells
from clew.extensions.commands.protocol import (
    CommandResult,
    NewSession,
    OpenSession,
    PickSession,
    RenameSession,
    SetLanguage,
    SwitchModel,
)
from clew.extensions.memory import ProjectMemory
from clew.permissions.rules import parse_rule
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from tests.extensions.hosting import USAGE, SmallHost, hosting

pytestmark = pytest.mark.anyio

LONG = "The quick brown fox jumps over the lazy dog and looks for marigolds. " * 60
COMMANDS = (
    *("help", "clear", "compact", "mode", "model", "language", "cost", "context", "permissions"),
    *("memory", "rewind", "resume", "rename", "reset", "agent", "pin", "recall"),
    *("unpin", "undo", "history", "effort", "theme", "tools", "todo", "diff", "copy", "show"),
    "export",
)


async def talk(host: SmallHost, *prompts: str) -> None:
    for prompt in prompts:
        await host.session.run(prompt)


def replies(count: int, text: str = "Fine.") -> list[ScriptedReply]:
    return [text_reply(text, usage=USAGE) for _ in range(count)]


@pytest.mark.req("CMD-2")
async def test_every_built_in_is_there_and_help_tells_of_each(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        overview = await host.run("/help")

        for name in COMMANDS:
            assert f"  /{name} " in overview.message
            one = await host.run(f"/help {name}")
            assert one.success
            assert one.message.startswith(f"/{name}")
        assert {c["name"] for c in _list(overview.data, "commands")} >= set(COMMANDS)


@pytest.mark.req("CMD-2")
async def test_help_takes_a_prefix_and_says_so_when_there_is_nothing(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        some = await host.run("/help re")
        none = await host.run("/help nonsense")

        assert [c["name"] for c in _list(some.data, "commands")] == [
            "recall",
            "reset",
            "rename",
            "resume",
            "rewind",
        ]
        assert not none.success
        assert "/help lists all" in none.message


@pytest.mark.req("CMD-2", "CMP-10")
async def test_compact_reports_and_can_be_previewed_and_undone(tmp_path: Path) -> None:
    async with hosting(tmp_path, *replies(8, LONG), "A summary of it all.") as host:
        await talk(host, *["tell me more"] * 8)
        before = host.session.get_history()

        preview = await host.run("/compact preview")

        assert host.session.get_history() == before
        assert "nothing has changed" in preview.message
        assert preview.data["preview"] is True

        done = await host.run("/compact keep the marigolds")

        assert done.success
        assert done.data["deferred"] is False
        assert done.data["tokens_after"] < done.data["tokens_before"]  # type: ignore[operator]
        assert done.data["summarised"]
        assert len(host.session.get_history()) < len(before)

        undone = await host.run("/compact undo")

        assert undone.data["what"] == "compaction"
        assert host.session.get_history() == before


@pytest.mark.req("CMD-2")
async def test_compact_undo_does_not_take_back_something_else(tmp_path: Path) -> None:
    async with hosting(tmp_path, "hello") as host:
        await talk(host, "hi")
        await host.run("/clear")

        refused = await host.run("/compact undo")

        assert not refused.success
        assert "the latest change is the clear" in refused.message
        assert host.session.get_history() == []
        assert (await host.run("/undo")).data["what"] == "clear"
        assert len(host.session.get_history()) == 2


@pytest.mark.req("CMD-2")
async def test_compact_force_skips_the_minimum_gain_and_is_not_an_instruction(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path, *(["a short answer"] * 8), "SUMMARY") as host:
        await talk(host, *(f"question {n}" for n in range(7)), "marigold " * 1_000)

        refused = await host.run("/compact keep names")
        forced = await host.run("/compact --force keep names")

        assert "it would save too little" in refused.message
        assert forced.success, forced.message
        assert (await host.run("/compact --preview")).message != ""


@pytest.mark.req("CMD-2")
async def test_an_unknown_flag_is_an_error_and_not_text(tmp_path: Path) -> None:
    async with hosting(tmp_path, "use --frozen") as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        await talk(host, "--all of it?")
        for line, flag in {
            "/compact --frobnicate": "--frobnicate",
            "/compact --force --now": "--now",
            "/clear --all": "--all",
            "/recall --frozen": "--frozen",
            "/memory add --quiet build text": "--quiet",
            "/rewind restore --all 1": "--all",
            "/model --fast": "--fast",
        }.items():
            result = await host.run(line)
            assert not result.success, line
            assert f"has no flag {flag}: write /" in result.message, (line, result.message)

        assert (await host.run("/recall -- --frozen")).data["entries"] != []
        assert (await host.run("/memory add build use --frozen here")).success
        assert (await host.run("/compact --force preview")).message.startswith("write /compact")


@pytest.mark.req("CMD-2", "MEM-1")
async def test_facts_extracted_from_the_users_messages_wait_for_approval(tmp_path: Path) -> None:
    async with hosting(tmp_path, "Remember that I lie.", "ok") as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        none = await host.run("/memory extract")
        await talk(host, "Hi. Remember that the API is frozen.", "My pin is 4921. Always use tabs.")

        found = await host.run("/memory extract")
        waiting = _list((await host.run("/memory pending")).data, "pending")

        assert "no fact to remember" in none.message
        assert [one["text"] for one in waiting] == ["the API is frozen", "Always use tabs"]
        assert {one["source"] for one in waiting} == {f"session {host.session.session_id}"}
        assert "2 facts wait for approval" in found.message
        assert host.memory.topics() == ()
        await host.run(f"/memory approve {waiting[0]['id']}")
        again = await host.run("/memory extract")
        assert "1 fact already known" in again.message
        assert "1 fact waits for approval" in again.message


@pytest.mark.req("CMD-3")
async def test_a_compaction_during_a_run_is_put_off_and_says_so(tmp_path: Path) -> None:
    pause = Pause()
    async with hosting(tmp_path, [pause, *text_reply("done")]) as host:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.session.run, "hi")
                await pause.reached.wait()

                result = await host.run("/compact keep names")

                pause.release()

        assert result.success
        assert result.data == {"deferred": True, "force": False, "instructions": "keep names"}
        assert "before the next model call" in result.message
        assert host.waiting == ["keep names"]


@pytest.mark.req("CMD-2")
async def test_what_cannot_be_done_is_a_sentence_and_no_exception(tmp_path: Path) -> None:
    async with hosting(tmp_path, "hello") as host:
        await talk(host, "hi")
        for line, says in {
            "/compact": "nothing can be compacted",
            "/compact preview": "nothing can be compacted",
            f"/compact {'x' * 5_000}": "at most 4,000 characters",
            "/compact a\x1b[2Jb": "U+001B",
            "/undo": "no compaction, removal of tool results, clear or rewind",
            "/undo it": "takes no arguments",
            "/context all": "takes no arguments",
            "/cost all": "takes no arguments",
            "/clear now": "takes no arguments",
            "/reset now": "takes no arguments",
            "/pin two": "give the number of an entry",
            "/pin #99": "entry #99 is not a message",
            f"/pin #{'9' * 30}": "give the number of an entry",
            "/unpin": "give the number of an entry",
            "/recall": "write text to search for",
            "/recall #99": "there is no entry #99",
            "/history all": "give the number of entries",
            "/history 0": "give the number of entries",
            "/rename": "write a name",
            f"/rename {'x' * 121}": "at most 120 characters",
            "/rename two\nlines": "U+000A",
            "/resume nonsense": "no session has the id or name 'nonsense'",
            "/rewind nonsense": "write /rewind [list",
            "/rewind restore": "give the number of a checkpoint",
            "/rewind restore 7": "there is no checkpoint 7",
            "/rewind code x": "give the number of a checkpoint",
            "/rewind conversation": "give the number of a checkpoint",
            "/rewind #99": "there is no entry #99",
            "/rewind #2": "/rewind conversation #2",
            "/mode nonsense": "choose one of: plan, default, acceptEdits, bypassPermissions",
            "/model two words": "one word",
            f"/model {'x' * 300}": "at most 200 characters",
            "/language 42": "the name or code",
            f"/language {'x' * 50}": "at most 40 characters",
            "/permissions nonsense": "write /permissions [list | clear]",
            "/memory list": "no project memory",
            "/agent": "this session has no agents",
            "/agent run Plan go": "this session has no agents",
            "/agent nonsense": "write /agent [list | run | parallel | read | send | stop]",
            f"/help {'x' * 30_000}": "at most 20,000 characters",
        }.items():
            result = await host.run(line)
            assert not result.success, line
            assert says in result.message, (line[:60], result.message)


@pytest.mark.req("CMD-2", "CTX-1")
async def test_context_draws_the_window_and_tells_exact_numbers(tmp_path: Path) -> None:
    async with hosting(tmp_path, *replies(1, LONG)) as host:
        await talk(host, "tell me")
        state = host.session.get_context_state()

        result = await host.run("/context")

        assert all(len(line) <= 80 for line in result.message.splitlines())
        assert f"{state.used_tokens:,} of 10,000 tokens" in result.message
        assert "compacts at 8,350 (83.5%)" in result.message
        assert result.data["used_tokens"] == state.used_tokens
        assert result.data["free_tokens"] == 10_000 - state.used_tokens
        parts = {one["name"]: one["tokens"] for one in _list(result.data, "categories")}
        assert sum(parts.values()) == state.used_tokens
        assert parts["assistant"] == state.breakdown.assistant
        assert result.data["thresholds"] == {
            "warn": {"percent": 70.0, "tokens": 7_000},
            "compact": {"percent": 83.5, "tokens": 8_350},
            "block": {"percent": 95.0, "tokens": 9_500},
        }


@given(
    parts=st.lists(st.integers(0, 3_000_000), min_size=7, max_size=7),
    window=st.integers(256, 2_000_000),
    compact=st.sampled_from([0.835, 1.0, 0.001, False]),
    model=st.text(max_size=60),
)
@example(parts=[0] * 7, window=256, compact=False, model="")
@example(parts=[10**9] * 7, window=256, compact=0.835, model="m" * 60)
def test_the_picture_fits_and_its_cells_follow_the_numbers(
    parts: list[int], window: int, compact: Any, model: str
) -> None:
    breakdown = Breakdown(**dict(zip(Breakdown.__struct_fields__, parts, strict=True)))
    state = ContextState(
        max_tokens=window,
        used_tokens=sum(parts),
        status=Status.OK,
        basis=Basis.ESTIMATED,
        breakdown=breakdown,
    )

    lines = draw_chart(state, Thresholds(compact=compact), model=model)
    shares = share_cells(dict(enumerate_names(parts)), window)

    assert all(len(line) <= 80 for line in lines)
    assert all(count >= 0 for count in shares.values())
    assert sum(shares.values()) == round(min(1, sum(parts) / max(1, window)) * 100)
    assert all(not count or tokens for count, tokens in zip(shares.values(), parts, strict=True))
    grid = [line[:19] for line in lines[2:12]]
    assert sum(sign not in "·!cx " for row in grid for sign in row) == sum(shares.values())
    assert ("automatic compaction is off" in "\n".join(lines)) is (compact is False)


def enumerate_names(parts: list[int]) -> list[tuple[str, int]]:
    return [(f"part {index}", tokens) for index, tokens in enumerate(parts)]


@pytest.mark.req("CMD-2")
async def test_cost_names_session_messages_money_and_tokens_by_kind(tmp_path: Path) -> None:
    async with hosting(tmp_path, *replies(2)) as host:
        host.name = "gardening"
        await talk(host, "one", "two")

        result = await host.run("/cost")

        assert host.session.session_id in result.message
        assert "gardening" in result.message
        assert "messages  4" in result.message
        assert "200 in (120 cache read, 10 cache write), 20 out" in result.message
        assert result.data["messages"] == 4
        assert result.data["calls"] == 2
        assert result.data["tokens"] == {
            "input_tokens": 200,
            "output_tokens": 20,
            "cache_read_tokens": 120,
            "cache_write_tokens": 10,
        }


@pytest.mark.req("CMD-2")
async def test_pins_are_set_listed_and_taken_away(tmp_path: Path) -> None:
    async with hosting(tmp_path, "hello") as host:
        await talk(host, "hi")
        entry = next(e.id for e in host.session.journal.entries if getattr(e.body, "message", None))

        nothing = await host.run("/pin")
        pinned = await host.run(f"/pin #{entry}")
        known = len(host.session.journal.entries)
        again = await host.run(f"/pin #{entry}")
        assert again.message == f"#{entry} is already pinned"
        assert len(host.session.journal.entries) == known
        listed = await host.run("/pin")
        unpinned = await host.run(f"/unpin {entry}")

        assert nothing.data["pinned"] == []
        assert pinned.success
        assert listed.data["pinned"] == [entry]
        assert f"#{entry}" in listed.message
        assert unpinned.success
        assert host.session.journal.view.pinned == frozenset()


@pytest.mark.req("CMD-2")
async def test_recall_finds_words_and_shows_one_entry_whole(tmp_path: Path) -> None:
    async with hosting(tmp_path, LONG) as host:
        await talk(host, "hi")

        found = await host.run("/recall MARIGOLDS")
        (hit,) = _list(found.data, "entries")
        whole = await host.run(f"/recall #{hit['id']}")
        nothing = await host.run("/recall tulips")
        both = await host.run("/recall 2-3")
        wide = await host.run("/recall --all marigolds role:assistant")

        assert found.message.startswith(f"#{hit['id']} assistant (")
        assert "looks for marigolds" in found.message
        assert whole.message == LONG
        assert nothing.success
        assert both.message.startswith("#2 user (")
        assert "#3 assistant (" in both.message
        assert wide.message.startswith(f"{host.session.session_id} #3 assistant (")
        assert "Nothing in this session matches 'tulips'" in nothing.message


@pytest.mark.req("CMD-2")
async def test_history_lists_entries_with_their_numbers(tmp_path: Path) -> None:
    async with hosting(tmp_path, call_reply(("nonsense", {})), "done") as host:
        assert "model m" in (await host.run("/history")).message
        await talk(host, "hi\nthere")
        await host.run("/mode plan")
        await host.session.set_system_message("Answer in German.")
        await host.session.add_history_entry("memory", "", kind="retrieved", why="notes.md")
        await host.run("/clear")
        await host.run("/undo")

        result = await host.run("/history 50")
        last = await host.run("/history 1")

        assert "you: hi there" in result.message
        assert "model: nonsense {}" in result.message
        assert "nonsense: Error: there is no tool" in result.message
        assert "session: permission mode plan" in result.message
        assert "session: the conversation was cleared" in result.message
        assert "session: system prompt changed" in result.message
        assert "memory: kind: retrieved, why: notes.md" in result.message
        assert len(_list(last.data, "entries")) == 1
        assert "was reverted" in last.message


@pytest.mark.req("CMD-2")
async def test_history_tells_of_every_kind_of_entry(tmp_path: Path) -> None:
    async with hosting(tmp_path, "hello") as host:
        await talk(host, "hi")
        pinned = EntryId(2)
        report = LossReport(
            kept=(),
            summarised=(pinned,),
            cleared=(),
            archived=(),
            tokens_before=2_000,
            tokens_after=1_000,
            author="rules",
            why="asked",
        )
        marker = Replacement(entry_id=pinned, text="[cleared]")
        for body, says in (
            (Charged(why="a summary"), "session: a summary, price unknown"),
            (Charged(why="a summary", cost=0.5), "session: a summary, $0.5000"),
            (Noted(topic="tool summary", text="two tools ran"), "tool summary: two tools ran"),
            (PinChanged(target=pinned, pinned=True), "session: #2 was pinned"),
            (PinChanged(target=pinned, pinned=False), "session: #2 was unpinned"),
            (ResultsCleared(replaced=(marker,), why="room"), "1 tool result removed from context"),
            (
                ResultsCleared(
                    replaced=(marker, marker),
                    why="room",
                    trigger="limit",
                    tokens_before=2_000,
                    tokens_after=900,
                ),
                "session: 2 tool results shortened in context, 2,000 → 900 tokens",
            ),
            (
                ReasoningDropped(targets=(pinned,), why="refused"),
                "reasoning of 1 message is no longer",
            ),
            (Rewound(files=("a", "b")), "session: 2 files were restored"),
            (Rewound(before=pinned, files=("a",)), "back to before #2, and 1 file was restored"),
            (
                Compacted(
                    trigger="manual",
                    strategy="compact",
                    summary="it was said",
                    dropped=(),
                    report=report,
                ),
                "session: compaction, 2,000 → 1,000 tokens",
            ),
        ):
            await host.session.journal.append(body)
            assert says in (await host.run("/history 1")).message


@pytest.mark.req("CMD-2")
async def test_clear_applies_at_once_and_reset_is_left_to_the_caller(tmp_path: Path) -> None:
    async with hosting(tmp_path, "hello") as host:
        await talk(host, "hi")

        reset = await host.run("/reset")
        assert len(host.session.get_history()) == 2
        cleared = await host.run("/clear")

        assert reset.effect == NewSession()
        assert cleared.success
        assert host.session.get_history() == []


@pytest.mark.req("CMD-2")
async def test_names_models_and_languages_come_back_for_the_caller(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        host.language = "de"

        assert (await host.run("/rename  parser work ")).effect == RenameSession("parser work")
        switched = await host.run("/model openai_chat/gpt-4.1")
        assert switched.effect == SwitchModel("openai_chat/gpt-4.1")
        assert switched.data == {"model": "openai_chat/gpt-4.1"}
        assert (await host.run("/model")).data["model"] == "m"
        assert host.session.journal.view.setup.model.name == "m"
        assert (await host.run("/language Français")).effect == SetLanguage("Français")
        assert (await host.run("/language any")).effect == SetLanguage("")
        shown = await host.run("/language")
        assert shown.data == {"language": "de"}
        assert shown.effect is None
        assert host.language == "de"


@pytest.mark.req("CMD-2", "PRM-1")
async def test_the_mode_is_shown_and_changed_at_once(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        shown = await host.run("/mode")
        changed = await host.run("/mode accept-edits")

        assert shown.data == {"mode": "default"}
        assert all(str(mode) in shown.message for mode in PermissionMode)
        assert changed.data == {"mode": "acceptEdits"}
        assert host.gate.mode is PermissionMode.ACCEPT_EDITS
        assert host.session.journal.view.mode == "acceptEdits"


@pytest.mark.req("CMD-2", "PRM-3")
async def test_permissions_list_rules_and_grants_and_clear_the_grants(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        host.gate.deny = (parse_rule("Bash(rm *)", source="project settings"),)
        empty = await host.run("/permissions")
        host.gate.grant(Access(tool="Write", risk=Risk.MODIFY, target="notes.txt"))

        listed = await host.run("/permissions list")
        cleared = await host.run("/permissions clear")

        assert "nothing is allowed for this session" in empty.message
        assert "deny: Bash(rm *)  (project settings)" in listed.message
        assert listed.data["deny"] == [{"rule": "Bash(rm *)", "source": "project settings"}]
        assert [grant["tool"] for grant in _list(listed.data, "grants")] == ["Write"]
        assert cleared.data == {"cleared": 1}
        assert host.session.list_grants() == []
        assert [str(rule) for rule in host.gate.deny] == ["Bash(rm *)"]


@pytest.mark.req("CMD-2")
async def test_resume_asks_for_a_choice_or_finds_the_one_session_that_is_meant(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    ids = []
    for words in ("marigolds bloom", "tulips bloom"):
        async with hosting(tmp_path, "yes", store=store) as other:
            await talk(other, words)
            ids.append(other.session.session_id)
    await store.rename(ids[1], "garden")
    async with hosting(tmp_path, "hello", store=store) as host:
        await talk(host, "roses bloom")
        own = host.session.session_id

        assert (await host.run("/resume")).effect == PickSession()
        for line, found in {
            f"/resume {ids[0]}": ids[0],
            f"/resume {ids[0][:-1]}": ids[0],
            "/resume garden": ids[1],
            "/resume marigolds": ids[0],
        }.items():
            assert (await host.run(line)).effect == OpenSession(found), line
        several = await host.run("/resume bloom")
        assert isinstance(several.effect, PickSession)
        assert sorted(several.effect.candidates) == sorted(ids)
        assert msgspec.json.decode(msgspec.json.encode(several), type=CommandResult) == several
        itself = await host.run(f"/resume {own}")
        assert not itself.success
        assert "already open" in itself.message
    await store.aclose()


@pytest.mark.req("CMD-2", "CKP-1")
async def test_rewind_lists_checkpoints_and_goes_back_by_number_or_entry(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"

    def writing(text: str) -> list[ScriptedReply]:
        return [call_reply(("Write", {"file_path": str(file), "content": text})), "done"]

    script = [*writing("one"), call_reply(("Read", {"file_path": str(file)})), "read"]
    tools = tuple(builtin_tools())
    async with hosting(tmp_path, *script, *writing("two"), tools=tools, checkpoints=True) as host:
        assert (await host.run("/rewind")).message == "there is no checkpoint yet"
        await host.run("/mode bypassPermissions")
        await talk(host, "write one", "read it", "write two")
        assert file.read_text() == "two"
        history = host.session.get_history()

        listed = await host.run("/rewind list")
        checkpoints = _list(listed.data, "checkpoints")
        first, _, last = (one["id"] for one in checkpoints)
        assert "write two  (1 file)" in listed.message
        assert checkpoints[2]["files"][0]["change"] == "changed"

        code = await host.run(f"/rewind code {last}")
        assert file.read_text() == "one"
        assert host.session.get_history() == history
        assert "1 file restored" in code.message
        assert (await host.run(f"/rewind code {last}")).message.startswith("the files are already")

        files = await host.run(f"/rewind restore {first}")
        assert not file.exists()
        assert host.session.get_history() == history
        assert "the conversation is unchanged" in files.message
        await host.run("/undo")
        assert file.read_text() == "one"

        whole = await host.run(f"/rewind both {first}")
        assert not file.exists()
        assert host.session.get_history() == []
        assert "the conversation and 1 file" in whole.message
        assert whole.data["before"] == checkpoints[0]["entry"]
        assert (await host.run("/undo")).data["what"] == "rewind"
        assert file.read_text() == "one"

        words = await host.run(f"/rewind conversation {last}")
        assert "files are unchanged" in words.message
        assert words.data["restored"] == []
        assert len(host.session.get_history()) == len(history) - 4
        by_entry = await host.run(f"/rewind #{checkpoints[1]['entry']}")
        assert by_entry.data["before"] == checkpoints[1]["entry"]


@pytest.mark.req("CMD-2", "MEM-1")
async def test_memory_is_added_shown_found_and_reviewed(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        assert "the memory is empty" in (await host.run("/memory")).message
        assert "has not used the memory" in (await host.run("/memory used")).message

        added = await host.run("/memory add user build The build runs on ninja")
        again = await host.run("/memory add BUILD the build  runs on Ninja.")

        assert added.data["status"] == "saved"
        assert added.data["kind"] == "user"
        assert "already known" in again.message
        assert [t["facts"] for t in _list((await host.run("/memory list")).data, "topics")] == [1]
        assert "runs on ninja" in (await host.run("/memory show build")).message
        assert "build" in (await host.run("/memory show")).message
        found = await host.run("/memory find what is the build?")
        assert [one["topic"] for one in _list(found.data, "found")] == ["build"]
        used = _list((await host.run("/memory used")).data, "used")
        assert "build" in [one["topic"] for one in used]

        for text in ("Tests run in parallel", "Releases are on Fridays"):
            host.memory.propose(text, topic="habits")
        waiting = _list((await host.run("/memory pending")).data, "pending")
        assert (await host.run(f"/memory approve {waiting[0]['id']}")).data["status"] == "saved"
        assert (await host.run(f"/memory reject {waiting[1]['id']}")).data["status"] == "rejected"
        assert (await host.run("/memory pending")).message == "no fact waits for approval"
        habits = (await host.run("/memory show habits")).message
        assert "in parallel" in habits
        assert "Fridays" not in habits


@pytest.mark.req("CMD-2", "MEM-1")
async def test_memory_refuses_secrets_and_bad_input_in_plain_words(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with hosting(tmp_path) as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        for line, says in {
            "/memory nonsense": "write /memory list | show",
            "/memory add": "write the fact to remember",
            "/memory add project build": "write the fact to remember",
            f"/memory add build {'x' * 3_000}": "at most 2,000 characters",
            "/memory add ../../etc the text": "cannot be the name of a topic",
            f"/memory add build the token is {secret}": "so it is not stored",
            "/memory show nothing-there": "nothing-there",
            "/memory approve": "give the id of one fact",
            "/memory approve a b": "give the id of one fact",
            "/memory reject mem_0": "/memory pending",
            "/memory find": "write text to search for",
            "/memory list all": "takes no arguments",
        }.items():
            result = await host.run(line)
            assert not result.success, line
            assert says in result.message, (line, result.message)
            assert secret not in result.message


@pytest.mark.req("CMD-2")
async def test_a_memory_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        (tmp_path / ".clew").write_text("in the way")

        result = await host.run("/memory add build the text")

        assert not result.success
        assert ".clew" in result.message


@pytest.mark.req("CMD-2")
async def test_an_abort_passes_through_a_command(tmp_path: Path) -> None:
    pause = Pause()
    script = [*replies(8, LONG), [pause, *text_reply("A summary.")]]
    aborted = False
    async with hosting(tmp_path, *script) as host:
        await talk(host, *["tell me more"] * 8)

        async def compact() -> None:
            nonlocal aborted
            try:
                await host.run("/compact")
            except AbortError:
                aborted = True

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(compact)
                await pause.reached.wait()
                host.session.abort()

        assert aborted
        assert not any(isinstance(e.body, Compacted) for e in host.session.journal.entries)


@pytest.mark.req("CMD-2")
async def test_a_change_of_the_session_during_a_run_is_refused_in_words(tmp_path: Path) -> None:
    pause = Pause()
    async with hosting(tmp_path, [pause, *text_reply("done")]) as host:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.session.run, "hi")
                await pause.reached.wait()

                result = await host.run("/clear")
                mode = await host.run("/mode plan")

                pause.release()

        assert not result.success
        assert "busy" in result.message
        assert mode.success
        assert [m.role for m in host.session.get_history()] == [Role.USER, Role.ASSISTANT]


WORDS = st.sampled_from(
    [
        *("list", "show", "add", "find", "pending", "approve", "used", "run", "code", "restore"),
        *("conversation", "preview", "undo", "clear", "plan", "#1", "#2", "#99", "12", "any"),
        *("--preview", "build", "..", "\x00", "\ud800", "#", "-1", "１２", "²", "\u2028"),
    ]
)


@given(
    name=st.sampled_from([name for name in COMMANDS if name != "compact"]),
    arguments=st.one_of(st.text(), st.lists(WORDS).map(" ".join)),
)
@example(name="resume", arguments='"')
@example(name="recall", arguments="#²")
@example(name="memory", arguments="add \ud800 \ud800")
def test_execute_never_raises_whatever_is_typed(
    tmp_path_factory: pytest.TempPathFactory, name: str, arguments: str
) -> None:
    async def once() -> None:
        folder = tmp_path_factory.mktemp("any")
        async with hosting(folder, "hello", checkpoints=True) as host:
            host.memory = ProjectMemory(folder / ".clew" / "memory", clock=lambda: 0.0)
            await host.session.run("hi")
            result = await host.registry.execute(host, name, arguments)
            assert result is not None
            assert result.message
            msgspec.json.encode(result)

    anyio.run(once)


@given(query=st.text(max_size=40))
@example(query='"unbalanced')
@example(query="* AND NOT (")
def test_any_words_can_be_looked_for_in_a_database(
    tmp_path_factory: pytest.TempPathFactory, query: str
) -> None:
    async def once() -> None:
        store = SqliteStore(tmp_path_factory.mktemp("any") / "s.db")
        async with hosting(Path.cwd(), "hello", store=store) as host:
            await host.session.run("hi")
            assert await host.registry.execute(host, "resume", query) is not None
        await store.aclose()

    anyio.run(once)


def _list(data: dict[str, object], name: str) -> list[Any]:
    found = data[name]
    assert isinstance(found, list)
    return found


async def test_plugin_passes_its_words_on_and_knows_whether_the_user_agrees(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as host:
        said = [
            await host.run(line)
            for line in (
                "/plugin",
                "/plugin install 'my plugin'",
                "/plugin install --yes --project x@shop",
                "/plugin marketplace search two words",
                "/plugin fly",
                "/plugin show 'x",
                "/plugin install --force x",
            )
        ]

    assert [one.message for one in said[:4]] == [
        "list",
        "install my plugin",
        "install x@shop (agreed) (project)",
        "marketplace search two words",
    ]
    assert [one.success for one in said] == [True] * 4 + [False] * 3
