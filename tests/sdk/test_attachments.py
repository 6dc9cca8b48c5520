"""Attachments: what `@path`, `@session:ID` and pasted images add to a prompt."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.context.reasoning import Echoes, ReasoningReader
from clew.context.recall.entry_text import entry_text
from clew.core.errors import ContextError, PromptBlocked, RunStopped
from clew.core.messages import Image, Message, Role, Text
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.providers.wire.anthropic.encode import encode, message_cache
from clew.sdk.client import PromptInput, wait_for_run
from clew.sdk.session import InteractiveSession
from clew.sdk.session_details import read_details
from clew.sdk.session_store import ProjectStore
from clew.stores.memory import MemoryStore
from clew.tools.function import tool
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-3")]


def results(session: InteractiveSession) -> list[str]:
    return [one.text for message in session.get_messages() for one in message.results]


def calls(session: InteractiveSession) -> list[str]:
    return [call.name for message in session.get_messages() for call in message.calls]


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def reopen(place: Place, provider: ScriptedProvider) -> InteractiveSession:
    return InteractiveSession(
        provider=provider,
        model="m",
        cwd=place.project,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    )


def images(message: Message) -> list[Image]:
    return [part for part in message.parts if isinstance(part, Image)]


async def test_a_file_is_attached_behind_the_prompt(place: Place) -> None:
    place.write("src/a.py", "print('maze')\n")
    async with place.session(["fine"]) as session:
        await session.run("Explain @src/a.py.")

        sent = place.provider.requests[0].messages
        assert [message.role for message in sent] == [Role.USER, Role.ASSISTANT, Role.TOOL]
        assert sent[0].text == "Explain @src/a.py."
        assert "print('maze')" in sent[2].results[0].text
        assert (await session.session.recall("maze")).is_found


async def test_an_attached_file_may_be_edited_without_reading_it_again(place: Place) -> None:
    path = place.write("a.txt", "old\n")
    edit = call_reply(("Edit", {"file_path": "a.txt", "old_string": "old", "new_string": "new"}))
    async with place.session([edit, "done"], permission_handler=None) as session:
        await session.execute("/mode acceptEdits")
        await session.run("Change @a.txt")

        assert path.read_text() == "new\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('Look at @"my notes.txt" now', ["Read"]),
        ("Look at @'my notes.txt'", ["Read"]),
        (r"Look at @my\ notes.txt", ["Read"]),
        ("(see @a.txt)", ["Read"]),
        ("@a.txt and @a.txt", ["Read"]),
        ("@src/", ["Glob"]),
        ("@src", ["Glob"]),
        ("@missing.txt", []),
        ("@/ or @~", []),
        ("me@a.txt", []),
        ("`@a.txt`", []),
        ("a @ b @@a.txt", []),
        ("@session:nothing", []),
        ("@" + "x" * 5_000, []),
        ("@a\0.txt", []),
    ],
)
async def test_only_what_exists_is_a_reference(place: Place, text: str, wanted: list[str]) -> None:
    place.write("a.txt", "alpha")
    place.write("my notes.txt", "notes")
    place.write("src/b.py", "b")
    async with place.session(["fine"]) as session:
        await session.run(text)

        assert calls(session) == wanted
        assert not any("Error" in one for one in results(session))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Explain @src/mian.py.",
            "@src/mian.py is not attached: there is no such file; did you mean @src/main.py?",
        ),
        ("see @notes.md#L3-9 please", "@notes.md is not attached: there is no such file"),
        ("see @./docs", "@./docs is not attached: there is no such file"),
        (
            "run @makefil",
            "@makefil is not attached: there is no such file; did you mean @Makefile?",
        ),
        ('see @"my notes.txt"', "@my notes.txt is not attached: there is no such file"),
        ("write to me@example.com or @john.doe", ""),
        ("install @types/node and @scope/package@1.2.3", ""),
        ("the decorators @property and @app.route, an import of @/components/Button", ""),
        ("open /tmp/nowhere/picture.png", ""),
        ("@ @@ @/ @~ @src @main", ""),
    ],
)
async def test_a_mistyped_path_is_told_and_other_words_are_not(
    place: Place, text: str, said: str
) -> None:
    place.write("src/main.py", "")
    place.write("Makefile", "")
    heard = Heard()
    async with place.session(["fine"]) as session:
        session.on_any(heard)
        result = await session.run(text)

    assert result.response == "fine"
    told = [event.text for event in heard.of("warning")]
    assert [one for one in told if "attached" in one] == ([said] if said else [])


async def test_lines_of_a_file_can_be_attached(place: Place) -> None:
    place.write("a.txt", "\n".join(f"line {number}" for number in range(1, 20)))
    async with place.session(["fine"]) as session:
        await session.run("Why @a.txt#L3-4?")

        (text,) = results(session)
        assert "line 3" in text
        assert "line 4" in text
        assert "line 5" not in text


async def test_a_long_file_is_cut_and_says_so(place: Place) -> None:
    place.write("long.txt", "\n".join(f"line {number}" for number in range(100_000)))
    async with place.session(["fine"]) as session:
        await session.run("@long.txt")

        (text,) = results(session)
        assert len(text) < 100_000
        assert "of 100000; continue with offset=" in text or "entry #" in text


async def test_a_denied_file_is_refused_and_a_secret_is_redacted(place: Place) -> None:
    place.write(".clew/settings.json", '{"permissions": {"deny": ["Read(private/**)"]}}')
    place.write("private/a.txt", "hidden words")
    place.write("key.txt", "token = ghp_" + "a1B2" * 9)
    async with place.session(["fine"], accepted=True) as session:
        await session.run("@private/a.txt @key.txt")

        refused, redacted = results(session)
        assert "hidden words" not in refused
        assert "Permission denied" in refused
        assert "[redacted" in redacted


async def test_a_file_outside_the_project_needs_no_question(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("beyond")
    async with place.session(["fine"]) as session:
        await session.run(f"@{outside}")

        assert "beyond" in results(session)[0]


async def test_an_image_becomes_a_part_of_the_prompt(place: Place, tmp_path: Path) -> None:
    (place.project / "pic.png").write_bytes(png())
    dropped = tmp_path / "my pic.png"
    dropped.write_bytes(png())
    escaped = str(dropped).replace(" ", "\\ ")
    async with place.session(["a", "b", "c"]) as session:
        await session.run("What is @pic.png?")
        await session.run(f"And {escaped} ?")
        await session.run(f"And '{dropped}' and file://{str(dropped).replace(' ', '%20')}")

        prompts = [one for one in session.get_messages() if one.role is Role.USER]
        assert [len(images(one)) for one in prompts] == [1, 1, 1]
        assert images(prompts[0])[0].data == png()
        shown = [one for one in session.get_full_history() if one.type == "user"]
        assert shown[0].data["content"] == "What is @pic.png?"


async def test_a_model_without_eyes_and_a_wrong_file_are_named(place: Place) -> None:
    place.write("pic.png", "no image")
    heard = Heard()
    session = place.session(["a"])
    session.on_any(heard)
    async with session:
        await session.run("@pic.png")
        assert "pic.png is not attached: it is not an image" in session.get_messages()[0].text

    blind = ScriptedProvider(["a"], ModelFacts(name="m", sees=False))
    (place.project / "pic.png").write_bytes(png())
    async with reopen(place, blind) as other:
        await other.run("@pic.png")

        assert "m does not accept images" in other.get_messages()[0].text
        assert images(other.get_messages()[0]) == []
    assert any("not an image" in event.text for event in heard.of("warning"))


async def test_another_session_is_attached_as_a_digest(place: Place) -> None:
    store = MemoryStore()
    async with place.session(["It is in the cellar."], store=store, name="maze") as first:
        await first.run("Where is the Minotaur?")
        session_id = first.get_session_id()

    async with place.session(["a", "b"], store=store) as session:
        await session.run(f"Continue with @session:{session_id}.")
        await session.run("And @session:maze")

        assert calls(session) == ["Recall", "Recall"]
        assert all("Minotaur" in text and session_id in text for text in results(session))


async def test_a_session_of_another_project_is_not_attached(place: Place) -> None:
    store, other = MemoryStore(), place.root / "other"
    other.mkdir()
    async with place.session(["It is in the cellar."], store=store, cwd=other) as first:
        await first.run("Where is the Minotaur?")
        session_id = first.get_session_id()

    heard = Heard()
    recall = call_reply(("Recall", {"session": session_id}))
    missing = call_reply(("Recall", {"session": "none"}))
    session = place.session([recall, missing, "fine"], store=store)
    session.on_any(heard)
    async with session:
        await session.run(f"Continue with @session:{session_id}.")

        assert results(session) == [
            f"Error: this project has no session {session_id}.",
            "Error: there is no session none.",
        ]
        warning = f"session:{session_id} is not attached: no single session of this project"
        assert [event.text.startswith(warning) for event in heard.of("warning")] == [True]


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({"thinking": {"type": "adaptive"}}, [Role.USER, Role.ASSISTANT, Role.TOOL]),
        ({"thinking": {"type": "enabled", "budget_tokens": 2_048}}, [Role.USER]),
        (
            {"additionalModelRequestFields": {"reasoning_config": {"type": "enabled"}}},
            [Role.USER],
        ),
    ],
)
async def test_a_file_does_not_switch_thinking_off(
    place: Place, options: dict[str, Any], roles: list[Role]
) -> None:
    place.write("a.txt", "alpha")
    async with place.session(["fine"], request_options=options) as session:
        await session.run("Explain @a.txt")

        (request,) = place.provider.requests
        assert [message.role for message in request.messages] == roles
        reader = ReasoningReader("anthropic", Echoes.OWN_ISSUED)
        encoded = json.loads(encode(request, message_cache(reader)))
        assert encoded.get("thinking") == options.get("thinking")
        assert "alpha" in json.dumps(encoded["messages"])


async def test_a_model_without_tools_reads_attachments_in_the_prompt(place: Place) -> None:
    place.write("a.txt", "alpha")
    provider = ScriptedProvider(["a"], ModelFacts(name="m", calls_tools=False))
    async with reopen(place, provider) as session:
        await session.run("@a.txt")

        first, _ = session.get_messages()
        assert "<attachment" in first.text
        assert "alpha" in first.text
        assert isinstance(first.parts[0], Text)


async def test_a_session_without_the_tool_says_so(place: Place) -> None:
    @tool
    def nothing() -> None:
        """Do nothing."""

    place.write("a.txt", "alpha")
    heard = Heard()
    session = place.session(["a"], tools=[nothing])
    session.on_any(heard)
    async with session:
        await session.run("@a.txt")

        assert calls(session) == []
        assert any("no tool Read" in event.text for event in heard.of("warning"))


async def test_a_text_that_the_user_did_not_type_attaches_nothing(place: Place) -> None:
    place.write("a.txt", "alpha")
    async with place.session(["a"]) as session:
        seq = (await session.snapshot()).seq
        run_id = await session.submit(PromptInput(text="@a.txt", attach=False))
        await wait_for_run(session, run_id, after=seq)

        assert calls(session) == []


async def test_of_a_text_with_piped_input_only_the_typed_part_attaches(place: Place) -> None:
    place.write("a.txt", "alpha")
    place.write("b.txt", "beta")
    async with place.session(["a"]) as session:
        seq = (await session.snapshot()).seq
        prompt = PromptInput(text="Compare with @a.txt\n\nsee @b.txt", attach="Compare with @a.txt")
        await wait_for_run(session, await session.submit(prompt), after=seq)

        assert calls(session) == ["Read"]
        assert "alpha" in str(session.get_messages())
        assert "beta" not in str(session.get_messages())


async def test_a_prompt_that_does_not_fit_leaves_no_attachment_behind(place: Place) -> None:
    place.write("a.txt", "alpha " * 2_000)
    async with place.session(["fine"], max_context_tokens=1_024, system_message="x") as session:
        before = session.get_messages()
        with pytest.raises(ContextError):
            await session.run("words " * 3_000 + "@a.txt")

        assert session.get_messages() == before


def add_hook(place: Place, event: str, command: str) -> None:
    hooks = {event: [{"hooks": [{"type": "command", "command": command}]}]}
    place.write(".clew/settings.json", json.dumps({"hooks": hooks}))


async def test_a_blocked_prompt_reads_no_attachment(place: Place) -> None:
    (place.project / "pic.png").write_bytes(png())
    add_hook(place, "UserPromptSubmit", "echo no >&2; exit 2")
    heard = Heard()
    session = place.session(["never"], accepted=True)
    session.on_any(heard)
    async with session:
        with pytest.raises(PromptBlocked):
            await session.run("What is @pic.png?")

        assert "tool_start" not in heard.names
        assert session.get_messages() == []


async def test_a_hook_that_stops_the_run_at_an_image_stops_this_run_only(place: Place) -> None:
    (place.project / "pic.png").write_bytes(png())
    add_hook(place, "PreToolUse", """echo '{"continue": false, "stopReason": "enough"}'""")
    async with place.session(["fine"], accepted=True) as session:
        with pytest.raises(RunStopped, match="enough"):
            await session.run("What is @pic.png?")

        assert session.get_messages() == []
        await session.run("hello")
        assert session.get_messages()[-1].text == "fine"


async def test_an_abort_while_an_image_is_read_ends_the_call(place: Place) -> None:
    (place.project / "pic.png").write_bytes(png())
    reading = anyio.Event()

    @tool(name="Read", risk=Risk.INSPECT)
    async def read(file_path: str) -> str:
        """Read a file."""
        reading.set()
        await anyio.sleep_forever()
        return file_path

    heard = Heard()
    session = place.session(["never"], tools=[read])
    session.on_any(heard)

    with anyio.fail_after(60):
        async with session, anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "What is @pic.png?")
            await reading.wait()
            session.abort()

    (started,), (ended,) = heard.of("tool_start"), heard.of("tool_end")
    assert ended.call_id == started.call_id
    assert ended.failed
    assert ended.error_code == "interrupted"


@pytest.mark.req("STO-1")
async def test_a_stored_session_lists_what_was_attached(place: Place) -> None:
    place.write("a.txt", "".join(f"line {number}\n" for number in range(20)))
    place.write("docs/b.txt", "b")
    (place.project / "maze.png").write_bytes(png())
    async with place.session(["one", "two"]) as session:
        await session.run("Read @a.txt#3-9, @docs/ and @nowhere.txt")
        await session.run("Look at @maze.png and @a.txt")
        store = ProjectStore(store=session.parts.store, folder=str(place.project))
        record, entries = await store.store.load(session.session.session_id)
        details = await read_details(store, record, entries)

    attached = [(one.reference.kind, one.reference.target) for one in details.context_references]
    assert attached == [
        ("file", "a.txt"),
        ("folder", "docs"),
        ("image", "maze.png"),
        ("file", "a.txt"),
    ]
    assert [one.reference.lines for one in details.context_references] == ["3-9", "", "", ""]
    first, *_, last = details.context_references
    prompts = [
        one.id for one in entries if "Read @" in entry_text(one) or "Look" in entry_text(one)
    ]
    assert [first.entry_id, last.entry_id] == prompts
