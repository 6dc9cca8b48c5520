"""A redaction mark stands for a secret: it is never written to a file, and the secret stays."""

from pathlib import Path
from typing import Any

import pytest

from clew import Session, tool
from clew.core.events import Event, ToolEnded
from clew.core.permissions import PermissionMode
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.stores.memory import MemoryStore
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.event_buses import bus_for

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-8", "LOG-2")]

COMPOSE = """\
services:
  shop:
    image: postgres:15
    environment:
      POSTGRES_PASSWORD: 'shop-horse-1'
  mail:
    image: postgres:15
    environment:
      POSTGRES_PASSWORD: 'mail-horse-2'
"""
MARK = "[redacted:password]"
SHOWN = COMPOSE.replace("shop-horse-1", MARK).replace("mail-horse-2", MARK)


async def call(folder: Path, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[ToolEnded]:
    """Let a model make calls one after another; returns how they ended."""
    events: list[Event] = []
    async with Session(
        ScriptedProvider([*(call_reply(one) for one in calls), "done"]),
        model="m",
        tools=[
            *builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF))),
            *options.pop("more_tools", ()),
        ],
        gate=Gate(cwd=folder, mode=PermissionMode.BYPASS),
        cwd=folder,
        store=MemoryStore(),
        event_bus=bus_for(events.append),
        **options,
    ) as session:
        await session.run("go")
    return [event for event in events if isinstance(event, ToolEnded)]


def edit(old: str, new: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "Edit", {"file_path": "f", "old_string": old, "new_string": new, **more}


READ = ("Read", {"file_path": "f"})


def write(content: str) -> tuple[str, dict[str, Any]]:
    return "Write", {"file_path": "f", "content": content}


async def edited(folder: Path, before: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """The file after the calls, which must all succeed."""
    (folder / "f").write_text(before)
    ended = await call(folder, READ, *calls)

    assert [one.display for one in ended if one.failed] == []
    return (folder / "f").read_text()


async def refused(folder: Path, before: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """The reason why the last call was refused; the file is as before."""
    (folder / "f").write_text(before)
    ended = await call(folder, READ, *calls)

    assert ended[-1].failed
    assert (folder / "f").read_text() == before
    return ended[-1].display


async def test_a_file_that_is_written_back_as_it_was_shown_keeps_its_secrets(
    tmp_path: Path,
) -> None:
    new = SHOWN.replace("postgres:15", "postgres:17")

    after = await edited(tmp_path, COMPOSE, write(new))

    assert after == COMPOSE.replace("postgres:15", "postgres:17")


async def test_edit_matches_the_secret_behind_a_mark_and_puts_it_back(tmp_path: Path) -> None:
    line = f"      POSTGRES_PASSWORD: '{MARK}'\n"

    after = await edited(
        tmp_path,
        COMPOSE,
        edit(f"{line}  mail:", f"{line}      POSTGRES_USER: shop\n  mail:"),
        edit(f"'{MARK}'\n      POSTGRES_USER", "'fresh-horse-3'\n      POSTGRES_USER"),
    )

    assert after == COMPOSE.replace(
        "'shop-horse-1'\n", "'fresh-horse-3'\n      POSTGRES_USER: shop\n"
    )


async def test_lines_that_change_places_keep_their_own_secrets(tmp_path: Path) -> None:
    before = "a_password = 'horse-1'\nb_password = 'horse-2'\n"
    shown = [f"a_password = '{MARK}'\n", f"b_password = '{MARK}'\n"]

    assert await edited(tmp_path, before, edit("".join(shown), shown[1] + shown[0])) == (
        "b_password = 'horse-2'\na_password = 'horse-1'\n"
    )
    head, rest = SHOWN.split("  shop:")
    shop, mail = f"  shop:{rest}".split("  mail:")
    swapped = await edited(tmp_path, COMPOSE, write(f"{head}  mail:{mail}{shop}"))
    assert swapped.index("mail:") < swapped.index("mail-horse-2") < swapped.index("shop:")


async def test_a_renamed_line_takes_the_only_secret_that_is_left(tmp_path: Path) -> None:
    before = "a_password = 'horse-1'\nb_password = 'horse-2'\n"
    shown = f"a_password = '{MARK}'\nb_password = '{MARK}'\n"

    after = await edited(tmp_path, before, edit(shown, shown.replace("b_", "mail_")))

    assert after == before.replace("b_", "mail_")


async def test_replace_all_keeps_the_secret_of_each_place(tmp_path: Path) -> None:
    old = f"POSTGRES_PASSWORD: '{MARK}'"

    after = await edited(
        tmp_path, COMPOSE, edit(old, old.replace("POSTGRES", "PG"), replace_all=True)
    )

    assert after == COMPOSE.replace("POSTGRES_PASSWORD", "PG_PASSWORD")


async def test_a_private_key_stays_whole_and_line_numbers_are_those_of_the_file(
    tmp_path: Path,
) -> None:
    body = "\r\n".join(f"{number}{'MIIEpAIBAAKCAQEA' * 4}"[:64] for number in range(10, 20))
    key = f"-----BEGIN RSA PRIVATE KEY-----\r\n{body}\r\n-----END RSA PRIVATE KEY-----"
    before = f"name: x\r\nkey: |\r\n{key}\r\nend: 1\r\n"
    (tmp_path / "f").write_bytes(before.encode())

    ended = await call(
        tmp_path,
        READ,
        ("Read", {"file_path": "f", "offset": 6, "limit": 3}),
        write("name: y\nkey: |\n[redacted:private-key]\nend: 2\n"),
        edit("[redacted:private-key]\nend: 2", "[redacted:private-key]\nend: 3"),
    )

    assert not any(one.failed for one in ended)
    after = (tmp_path / "f").read_bytes().decode()
    assert after == before.replace("name: x", "name: y").replace("end: 1", "end: 3")


async def test_a_part_of_a_private_key_is_not_shown_either(tmp_path: Path) -> None:
    body = [f"{number}{'MIIEpAIBAAKCAQEA' * 4}"[:64] for number in range(10, 20)]
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", "after"]
    (tmp_path / "f").write_text("\n".join(lines))
    provider = ScriptedProvider(
        [call_reply(("Read", {"file_path": "f", "offset": 6, "limit": 8})), "done"]
    )

    async with Session(provider, model="m", tools=builtin_tools(), cwd=tmp_path) as session:
        await session.run("go")

    result = provider.requests[-1].messages[-1].parts[0]
    assert result.text == "     1\t[redacted:private-key]\n    13\tafter"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "attempt"),
    [
        ("debug = 1\n", write(f"debug = 1\npassword = '{MARK}'\n")),
        ("debug = 1\n", edit("debug = 1", f"password = '{MARK}'")),
        (COMPOSE, write(f"x: '{MARK}'\ny: 1\n")),
        (COMPOSE, edit("services:", f"services:\n  x:\n    POSTGRES_PASSWORD: '{MARK}'")),
        (COMPOSE, edit("services:", f"# {MARK}\nservices:")),
    ],
)
async def test_a_mark_that_may_mean_another_secret_or_none_is_refused(
    tmp_path: Path, before: str, attempt: tuple[str, dict[str, Any]]
) -> None:
    reason = await refused(tmp_path, before, attempt)

    assert "never written to a file" in reason


async def test_a_new_file_cannot_have_a_mark(tmp_path: Path) -> None:
    (ended,) = await call(tmp_path, write(f"password = '{MARK}'\n"))

    assert "was not changed" in ended.display
    assert not (tmp_path / "f").exists()


async def test_a_mark_that_the_file_itself_contains_may_stay(tmp_path: Path) -> None:
    before = f"# A report shows {MARK}.\npassword = 'horse-1'\nx = 1\n"
    shown = before.replace("horse-1", MARK)

    assert await edited(tmp_path, before, write(shown.replace("x = 1", "x = 2"))) == (
        before.replace("x = 1", "x = 2")
    )
    assert await edited(tmp_path, before, edit(f"shows {MARK}.", f"has {MARK}.")) == (
        before.replace("shows", "has")
    )


@pytest.mark.parametrize(
    "command",
    [
        f"cat > f <<'EOF'\npassword = '{MARK}'\nEOF",
        f"echo \"password = '{MARK}'\" >> f",
        "sed -i 's/x/[redacted:github-token]/' f",
        "python3 -c \"open('f','w').write('[redacted:private-key]')\"",
    ],
)
async def test_a_command_with_a_mark_does_not_run(tmp_path: Path, command: str) -> None:
    reason = await refused(tmp_path, "x = 1\n", ("Bash", {"command": command}))

    assert "stands for a secret" in reason
    assert "use Edit" in reason


async def test_other_tools_that_change_things_get_no_marks_in_any_argument(tmp_path: Path) -> None:
    saved: list[object] = []

    @tool
    def save(documents: list[dict[str, str]], times: int = 1) -> None:
        """Save documents."""
        saved.extend([documents] * times)

    marked, plain = (
        {"documents": [{"a": text}], "times": 1} for text in (f"x {MARK}", "x [redacted]")
    )
    first, second = await call(
        tmp_path, ("save", marked), ("save", plain), more_tools=[save], detect_loops=False
    )

    assert (first.failed, first.error_code) == (True, "redaction_mark")
    assert not second.failed
    assert saved == [[{"a": "x [redacted]"}]]


async def test_without_redaction_a_mark_is_plain_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("password = 'horse-1'\n")

    ended = await call(
        tmp_path,
        READ,
        edit("password", MARK),
        ("Bash", {"command": f"echo '{MARK}'"}),
        redact=False,
    )

    assert not any(one.failed for one in ended)
    assert (tmp_path / "f").read_text() == f"{MARK} = 'horse-1'\n"


@pytest.mark.parametrize("fixture", ["password='test'", 'password: "changeme"', "token: str"])
async def test_a_fixture_with_a_placeholder_is_shown_and_edited_as_it_is(
    tmp_path: Path, fixture: str
) -> None:
    provider = ScriptedProvider([call_reply(READ), "done"])
    (tmp_path / "f").write_text(fixture)

    async with Session(provider, model="m", tools=builtin_tools(), cwd=tmp_path) as session:
        await session.run("go")

    assert fixture in provider.requests[-1].messages[-1].parts[0].text  # type: ignore[union-attr]
    assert await edited(tmp_path, fixture, edit(fixture, f"{fixture}\n# ok")) == f"{fixture}\n# ok"
