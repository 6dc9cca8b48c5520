"""The commands that show, copy and export the work of a session."""

from pathlib import Path

import msgspec
import pytest

from clew.context.economy import Economy
from clew.core.permissions import PermissionMode
from clew.extensions.commands.protocol import CopyText, SetTheme, ShowEntry
from clew.providers.scripted import ScriptedReply, call_reply
from clew.tools.builtin import builtin_tools
from tests.extensions.hosting import SmallHost, hosting

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-3")]

SECRET = "ghp_" + "a1B2" * 9
TODOS = {"todos": [{"content": "Look", "status": "pending", "activeForm": "Looking"}]}


async def work(host: SmallHost, prompt: str) -> None:
    await host.session.set_permission_mode(PermissionMode.ACCEPT_EDITS)
    await host.session.run(prompt)


async def test_todo_lists_the_tasks(tmp_path: Path) -> None:
    replies: list[ScriptedReply] = [call_reply(("TodoWrite", TODOS)), "done"]
    async with hosting(tmp_path, *replies, tools=builtin_tools()) as host:
        empty = await host.run("/todo")
        await host.session.run("go")

        assert "no todo list" in empty.message
        assert (await host.run("/todo")).message == "  [ ] Look"


async def test_diff_shows_what_the_session_changed(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    (tmp_path / "other.txt").write_text("same\n")
    edit = call_reply(
        ("Read", {"file_path": "old.txt"}),
        ("Edit", {"file_path": "old.txt", "old_string": "two", "new_string": "three"}),
    )
    replies: list[ScriptedReply] = [
        edit,
        call_reply(("Write", {"file_path": "new/a.txt", "content": "x\n"})),
        "done",
    ]
    async with hosting(tmp_path, *replies, tools=builtin_tools(), checkpoints=True) as host:
        assert "changed no files" in (await host.run("/diff")).message
        await work(host, "go")

        result = await host.run("/diff")

        assert "--- a/old.txt\n+++ b/old.txt" in result.message
        assert "-two\n+three" in result.message
        assert "--- /dev/null\n+++ b/new/a.txt" in result.message
        assert result.message.endswith("2 files changed, +2 -1")
        assert [one["path"] for one in result.data["files"]] == ["new/a.txt", "old.txt"]  # type: ignore[attr-defined]
        assert "old.txt" not in (await host.run("/diff new")).message
        (tmp_path / "old.txt").write_text("one\ntwo\n")
        assert "old.txt" not in (await host.run("/diff")).message


async def test_diff_redacts_secrets_and_names_binary_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    async with hosting(tmp_path, "hi", tools=builtin_tools(), checkpoints=True) as host:
        await host.session.run("go")
        assert host.session.state.checkpoints is not None
        host.session.state.checkpoints.keep(tmp_path / "a.bin")
        host.session.state.checkpoints.keep(tmp_path / "key.txt")
        (tmp_path / "a.bin").unlink()
        (tmp_path / "key.txt").write_text(f"token = {SECRET}\n")

        message = (await host.run("/diff")).message

        assert "a.bin: binary" in message
        assert SECRET not in message


async def test_diff_needs_checkpoints(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        assert not (await host.run("/diff")).success


async def test_copy_takes_the_last_answer_or_an_entry(tmp_path: Path) -> None:
    async with hosting(tmp_path, "the **answer**") as host:
        assert not (await host.run("/copy")).success
        await host.session.run("the question")

        assert (await host.run("/copy")).effect == CopyText("the **answer**")
        assert (await host.run("/copy #2")).effect == CopyText("the question")
        assert not (await host.run("/copy #99")).success


async def test_show_prints_an_entry_in_full(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("\n".join(f"line {number}" for number in range(1_500)))
    replies: list[ScriptedReply] = [call_reply(("Read", {"file_path": "long.txt"})), "done"]
    async with hosting(tmp_path, *replies, tools=builtin_tools()) as host:
        await host.session.run("read it")

        result = await host.run("/show #4")

        assert result.effect == ShowEntry(host.session.journal.entries[3].id)
        assert result.message.startswith("#4  Read\n")
        assert "line 1499" in result.message
        assert await host.run("/show entry 4") == result
        assert "m" in (await host.run("/show #1")).message
        assert not (await host.run("/show")).success


async def test_export_writes_a_file_once_and_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("```\nfenced\n```")
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "a.txt"}), text="I look."),
        "done",
    ]
    async with hosting(tmp_path, *replies, tools=builtin_tools()) as host:
        await host.session.run(f"my token = {SECRET}")
        await host.session.clear_history()

        first = await host.run("/export out.md")
        again = await host.run("/export out.md")
        data = await host.run("/export --json")

        text = (tmp_path / "out.md").read_text()
        assert first.success
        assert "## You (#2)" in text
        assert "## Clew" in text
        assert "````\n" in text
        assert "*clear" in text
        assert SECRET not in text
        assert not again.success
        saved = Path(str(data.data["path"])).read_bytes()
        assert SECRET.encode() not in saved
        assert msgspec.json.decode(saved)["history"][0]["type"] == "user"
        assert not (await host.run("/export ~nobody-here/x.md")).success
        assert not (await host.run("/export missing/x.md")).success


async def test_theme_is_an_effect_for_the_client(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        assert "colour-blind" in (await host.run("/theme")).message
        assert (await host.run("/theme color-blind")).effect == SetTheme("colour-blind")
        assert not (await host.run("/theme pink")).success


async def test_tools_are_listed_with_their_origin(tmp_path: Path) -> None:
    async with hosting(tmp_path, tools=builtin_tools()) as host:
        host.tool_origins = {"Read": "~/.clew/tools/read.py"}

        message = (await host.run("/tools")).message

        assert "the model has 10 tools" in message
        assert "(~/.clew/tools/read.py)" in message
        assert "(built in)" in message


@pytest.mark.req("CTX-6")
async def test_the_economy_is_shown_and_changed_and_an_unknown_one_changes_nothing(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as host:
        assert "economy: balanced" in (await host.run("/economy")).message
        changed = await host.run("/economy lean")
        assert changed.message.startswith("economy: lean (compact early")
        refused = await host.run("/economy huge")

        assert not refused.success
        assert "full, balanced, lean" in refused.message
        assert host.session.state.policy.economy is Economy.LEAN


async def test_a_model_without_a_choice_of_effort_says_so(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        assert "default" in (await host.run("/effort")).message
        refused = await host.run("/effort high")

        assert not refused.success
        assert "m on scripted has no choice of reasoning effort" in refused.message
        assert not (await host.run("/effort maximal")).success
        assert (await host.run("/effort default")).success
