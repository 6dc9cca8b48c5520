"""Read, Write and Edit."""

import base64
import os
import resource
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.core.permissions import Risk
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.files import MAX_BYTES
from clew.tools.protocol import Tool, ToolContext, ToolOutput

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-5")]


class Kit:
    """One session's tools in one folder."""

    def __init__(self, cwd: Path) -> None:
        self.place = ToolContext(cwd=cwd)
        self.tools: dict[str, Tool] = {made.spec.name: made for made in builtin_tools()}

    async def __call__(self, name: str, **arguments: Any) -> ToolOutput:
        return await self.tools[name].run(arguments, self.place)


def names(folder: Path | str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def devices() -> set[str]:
    return {path.name for path in Path("/dev").iterdir() if path.is_char_device()}


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


async def test_each_tool_says_what_it_would_touch(kit: Kit) -> None:
    url = "https://example.com/"
    arguments = {"file_path": "a", "path": "b", "command": "c", "url": url, "query": "d"}
    found = {name: made.access(arguments, kit.place) for name, made in kit.tools.items()}

    assert {name: (a.risk, a.target, a.kind) for name, a in found.items()} == {
        "Read": (Risk.INSPECT, "a", "path"),
        "Write": (Risk.MODIFY, "a", "path"),
        "Edit": (Risk.MODIFY, "a", "path"),
        "Glob": (Risk.INSPECT, "b", "path"),
        "Grep": (Risk.INSPECT, "b", "path"),
        "Bash": (Risk.EXECUTE, "c", "command"),
        "WebFetch": (Risk.INSPECT, url, "address"),
        "WebSearch": (Risk.INSPECT, "d", "text"),
        "TodoWrite": (Risk.INSPECT, "", "text"),
    }
    assert kit.tools["Grep"].access({}, kit.place).target == "."


async def test_read_numbers_lines_and_says_where_to_continue(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 2501)))

    whole = await kit("Read", file_path="a")
    part = await kit("Read", file_path="a", offset=2499, limit=9)

    assert whole.text.startswith("     1\tline 1\n     2\tline 2\n")
    assert whole.text.endswith("\n[lines 1-2000 of 2500; continue with offset=2001]")
    assert part.text == "  2499\tline 2499\n  2500\tline 2500"
    past = await kit("Read", file_path="a", offset=3000)
    assert past.failed
    assert "only 2,500 lines" in past.text


async def test_read_cuts_a_long_line_and_says_so(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 2100 + "\nshort")

    out = await kit("Read", file_path="a")

    assert out.text == f"     1\t{'x' * 2000} [cut: 100 more characters]\n     2\tshort"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("\ufeffgrüß\n".encode(), "     1\tgrüß"),
        ("\ufeffgrüß\n".encode("utf-16-le"), "     1\tgrüß\n[encoded as utf-16-le]"),
        ("\ufeffgrüß\n".encode("utf-16-be"), "     1\tgrüß\n[encoded as utf-16-be]"),
        ("grüß\n".encode("latin-1"), "     1\tgrüß\n[not valid UTF-8, shown as Latin-1]"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb"),
        (b"", "[a is empty]"),
    ],
)
async def test_read_knows_encodings(kit: Kit, tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a").write_bytes(data)

    assert (await kit("Read", file_path="a")).text == said


async def test_a_failed_read_says_why(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("x")
    (tmp_path / "zero").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "noise").write_bytes(bytes(range(1, 256)) * 9)
    (tmp_path / "sub").mkdir()

    said = {
        name: await kit("Read", file_path=name)
        for name in ("./Config.tml", "zero", "noise", "sub", "no/where", "qqq", "\0", "/dev/zero")
    }

    assert all(out.failed for out in said.values())
    assert said["./Config.tml"].text == ("./Config.tml does not exist. Did you mean ./config.toml?")
    assert "binary" in said["zero"].text
    assert "binary" in said["noise"].text
    assert "folder" in said["sub"].text
    assert "neither does its folder" in said["no/where"].text
    assert said["qqq"].text == "qqq does not exist."
    assert "not a regular file" in said["/dev/zero"].text


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (PIXEL, "image/png", "1×1 pixels, "),
        (b"GIF89a\x02\0\x03\0", "image/gif", "2×3 pixels, "),
        (b"\xff\xd8\xff\xe0", "image/jpeg", ""),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", ""),
    ],
)
async def test_read_shows_a_picture_by_what_it_is(
    kit: Kit, tmp_path: Path, *, data: bytes, kind: str, size: str
) -> None:
    (tmp_path / "named.txt").write_bytes(data)

    out = await kit("Read", file_path="named.txt")

    assert not out.failed
    assert [(image.media_type, image.data) for image in out.images] == [(kind, data)]
    assert out.text == f"[named.txt: {kind}, {size}{len(data)} bytes]"


async def test_read_says_what_it_cannot_show(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL + bytes(4_000_000))
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3\0")

    image = await kit("Read", file_path="a.png")
    pdf = await kit("Read", file_path="a.pdf")

    assert image.failed
    assert "make a smaller copy" in image.text
    assert pdf.failed
    assert "pdftotext" in pdf.text


async def test_read_shows_a_notebook_as_its_cells(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(
        """{"cells": [
        {"cell_type": "markdown", "source": ["# Title\\n", "words"]},
        {"cell_type": "code", "id": "c1", "source": "print(1)", "outputs": [
          {"output_type": "stream", "name": "stdout", "text": ["1\\n"]},
          {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
          {"output_type": "display_data", "data": {"image/png": "xx", "text/plain": "<Figure>"}},
          {"output_type": "error", "ename": "ValueError", "evalue": "no"}]}
        ], "nbformat": 4}"""
    )
    (tmp_path / "broken.ipynb").write_text("{not json")

    out = await kit("Read", file_path="a.ipynb")
    part = await kit("Read", file_path="a.ipynb", offset=5, limit=2)

    assert [line.partition("\t")[2] for line in out.text.splitlines()[:-1]] == [
        *("# cell 1 (markdown)", "# Title", "words", ""),
        *("# cell 2 c1 (code)", "print(1)", "# output of cell 2", "1", "2"),
        *("[image/png, text/plain]", "ValueError: no"),
    ]
    assert out.text.endswith("[a notebook as text; in the file each cell is JSON]")
    assert part.text.startswith("     5\t# cell 2 c1 (code)\n     6\tprint(1)\n[lines 5-6 of 11;")
    assert (await kit("Read", file_path="broken.ipynb")).text == "     1\t{not json"


async def test_read_takes_a_piece_out_of_a_huge_file(kit: Kit, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as stream:
        stream.write(b"".join(b"line %d\n" % n for n in range(1, 1001)))
        stream.truncate(MAX_BYTES + 1)

    piece = await kit("Read", file_path="log", offset=999, limit=2)
    binary = await kit("Read", file_path="log", offset=1001)
    past = await kit("Read", file_path="log", offset=5000)

    assert piece.text == (
        "   999\tline 999\n  1000\tline 1000\n[lines 999-1000 of a file of 64,000,001 bytes; "
        "continue with offset=1001, or search it with Grep]"
    )
    assert binary.failed
    assert past.failed
    assert "fewer than 5000 lines" in past.text
    assert (await kit("Edit", file_path="log", old_string="a", new_string="b")).failed


async def test_write_creates_folders_and_reports_a_diff(kit: Kit, tmp_path: Path) -> None:
    out = await kit("Write", file_path="deep/er/a.txt", content="one\ntwo\n")

    assert (tmp_path / "deep/er/a.txt").read_text() == "one\ntwo\n"
    assert out.text == "Created deep/er/a.txt (2 lines)."
    assert (out.data["added"], out.data["removed"]) == (2, 0)
    assert names(tmp_path / "deep/er") == {"a.txt"}


async def test_a_file_of_one_line_is_counted_in_the_singular(kit: Kit) -> None:
    out = await kit("Write", file_path="a.txt", content="one\n")

    assert out.text == "Created a.txt (1 line)."


async def test_write_replaces_only_what_was_read_and_is_unchanged(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("mine")

    unread = await kit("Write", file_path="a", content="new")
    await kit("Read", file_path="a")
    file.write_text("ours")
    changed = await kit("Write", file_path="a", content="new")
    edited = await kit("Edit", file_path="a", old_string="ours", new_string="new")
    await kit("Read", file_path="a")
    again = await kit("Write", file_path="a", content="new")
    once_more = await kit("Write", file_path="a", content="newer")

    assert unread.failed
    assert "Read it first" in unread.text
    assert changed.failed
    assert edited.failed
    assert "changed since it was read" in changed.text
    assert not again.failed
    assert not once_more.failed
    assert file.read_text() == "newer"


async def test_write_keeps_the_mode_and_follows_a_link(kit: Kit, tmp_path: Path) -> None:
    target, link = tmp_path / "real.sh", tmp_path / "link.sh"
    target.write_text("old")
    target.chmod(0o750)
    link.symlink_to(target)
    await kit("Read", file_path="link.sh")

    out = await kit("Write", file_path="link.sh", content="new")

    assert not out.failed
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"a\n", "x\r\ny", b"x\r\ny"),
        ("\ufeffa\r\n".encode("utf-16-le"), "ü\n", "\ufeffü\r\n".encode("utf-16-le")),
        ("\ufeffa".encode(), "b", "\ufeffb".encode()),
        (b"\xe9", "\xe8", b"\xe8"),
        (b"\xe9", "→", "→".encode()),
    ],
)
async def test_write_keeps_encoding_and_line_endings(
    kit: Kit, tmp_path: Path, *, old: bytes, content: str, new: bytes
) -> None:
    (tmp_path / "a").write_bytes(old)
    await kit("Read", file_path="a")

    out = await kit("Write", file_path="a", content=content)

    assert (tmp_path / "a").read_bytes() == new
    assert ("now UTF-8" in out.text) is (content == "→")


async def test_a_replaced_file_keeps_owner_mode_and_attributes(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("old")
    file.chmod(0o604)
    if os.getuid() == 0:
        os.chown(file, 12, 34)
    try:
        os.setxattr(file, "user.clew", b"1")
    except OSError:
        pytest.skip("this file system has no attributes")
    before = file.stat()

    await kit("Edit", file_path="a", old_string="old", new_string="new")

    after = file.stat()
    assert file.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert os.getxattr(file, "user.clew") == b"1"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
async def test_a_read_only_file_is_not_replaced(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o444)

    out = await kit("Edit", file_path="a", old_string="old", new_string="new")

    assert out.text == "a cannot be written: it is read-only."


async def test_a_new_file_has_the_mode_that_the_user_gives_new_files(
    kit: Kit, tmp_path: Path
) -> None:
    (tmp_path / "model").touch()

    await kit("Write", file_path="a", content="x")

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "model").stat().st_mode
    )


async def test_what_crashes_left_behind_is_removed_in_time(kit: Kit, tmp_path: Path) -> None:
    for name, age in ((".clew-0123.tmp", 1_000), (".clew-4567.tmp", 2_000_000_000), ("x.tmp", 9)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (age, age))

    await kit("Write", file_path="a", content="x")

    assert names(tmp_path) == {"a", ".clew-4567.tmp", "x.tmp"}


async def test_write_refuses_folders_devices_and_impossible_text(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    for path in ("sub", "/dev/null", "\0", "/proc/nothing/x"):
        assert (await kit("Write", file_path=path, content="x")).failed, path
    assert (await kit("Write", file_path="a", content="\ud800")).failed
    assert not (tmp_path / "a").exists()
    assert devices() >= {"null"}


async def test_a_write_that_fails_half_way_leaves_the_old_file(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    await kit("Read", file_path="a")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        out = await kit("Write", file_path="a", content="x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert out.failed
    assert "cannot be written" in out.text
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == {"a"}


async def test_edit_replaces_one_text_and_reports_a_diff(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\n")

    out = await kit("Edit", file_path="a", old_string="two", new_string="2\n2b")

    assert (tmp_path / "a").read_text() == "one\n2\n2b\nthree\n"
    assert out.text == "Edited a: 1 replacement at line 2."
    assert out.data["diff"] == ("--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three")
    assert out.display.startswith("a +2 -1\n@@")


async def test_edit_keeps_line_endings_byte_order_mark_encoding_and_mode(
    kit: Kit, tmp_path: Path
) -> None:
    file = tmp_path / "a"
    file.write_bytes("\ufeffone\r\ntwo\r\nlone\nüx\r\n".encode("utf-16-le"))
    file.chmod(0o640)

    out = await kit("Edit", file_path="a", old_string="one\ntwo", new_string="1\n2\n3")

    assert not out.failed
    assert file.read_bytes() == "\ufeff1\r\n2\r\n3\r\nlone\nüx\r\n".encode("utf-16-le")
    assert file.stat().st_mode & 0o777 == 0o640


async def test_edit_adds_lines_with_the_ending_that_the_file_uses(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc")

    await kit("Edit", file_path="a", old_string="b", new_string="x\ny")

    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbfa\r\nx\r\ny\r\nc"


async def test_edit_fails_clearly(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("def first():\n    pass\ndef second():\n    pass\n")
    (tmp_path / "l").write_bytes("ü".encode("latin-1"))

    async def said(**arguments: Any) -> str:
        out = await kit("Edit", **({"file_path": "a", "new_string": "x"} | arguments))
        assert out.failed
        return out.text

    assert "2 times, at lines 2, 4" in await said(old_string="pass")
    assert "nearest line is line 1: def first():" in await said(old_string="def fist():")
    assert "the lines after it differ" in await said(old_string="def first():\n    return")
    assert "Read the file again" in await said(old_string="zzzzzz")
    assert "the same" in await said(old_string="pass", new_string="pass")
    assert "empty" in await said(old_string="")
    assert "does not exist" in await said(file_path="b", old_string="x")
    assert "cannot contain" in await said(file_path="l", old_string="ü", new_string="→")


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        (
            "def f():\n    return 'a'",
            "With other whitespace it is at lines 2-3. The file has there:\n"
            "\tdef f():\n\t\treturn 'a'",
        ),
        (
            "return   'a'\n\n",
            "With other whitespace it is at line 3. The file has there:\n\t\treturn 'a'",
        ),
        (
            "# it's - so",
            "With characters that look alike it is at line 4. The file has there:\n\t# it’s — so",
        ),
        (
            "x=1",
            "With other whitespace it is at line 5 and in 1 other place. The file has there:",
        ),
        ("     2\t\tdef f():", "It has line numbers, which are not part of the file"),
    ],
)
async def test_edit_quotes_what_the_file_says_instead(
    kit: Kit, tmp_path: Path, old: str, hint: str
) -> None:
    (tmp_path / "a").write_text(
        "class A:\n\tdef f():\n\t\treturn 'a'\n\t# it’s — so\nx = 1\nx  = 1\n"
    )

    out = await kit("Edit", file_path="a", old_string=old, new_string="y")

    assert out.failed
    assert out.text.startswith(f"old_string is not in a. {hint}")


async def test_edit_can_replace_every_occurrence(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x y x\nx\n")

    out = await kit("Edit", file_path="a", old_string="x", new_string="\\1", replace_all=True)

    assert (tmp_path / "a").read_text() == "\\1 y \\1\n\\1\n"
    assert out.text == "Edited a: 3 replacements at lines 1, 1, 2."


async def test_edits_of_one_file_at_the_same_time_all_land(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in range(30)))
    await kit("Read", file_path="a")
    outs: list[ToolOutput] = []

    async def edit(n: int) -> None:
        outs.append(await kit("Edit", file_path="a", old_string=f"<{n}>", new_string=f"[{n}]"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for n in range(30):
                group.start_soon(edit, n)

    assert not any(out.failed for out in outs)
    assert (tmp_path / "a").read_text() == "".join(f"[{n}]\n" for n in range(30))


async def test_two_sets_of_tools_do_not_share_what_they_have_read(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    await kit("Read", file_path="a")

    assert (await Kit(tmp_path)("Write", file_path="a", content="y")).failed
