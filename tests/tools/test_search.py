"""Glob and Grep."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.protocol import Place, ToolOutput

pytestmark = pytest.mark.anyio

ENGINES = ["", *filter(None, [shutil.which("rg")])]


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
    return await glob_tool().run(arguments, Place(cwd=root))


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


async def test_glob_says_that_a_folder_is_none(project: Path) -> None:
    assert (await glob(project, pattern="*", path="a.py")).failed


@pytest.mark.parametrize("engine", ENGINES)
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
        ({"pattern": "--help"}, "[nothing matches --help]"),
        ({"pattern": "outside"}, "[nothing matches outside]"),
        ({"pattern": "never"}, "[nothing matches never]"),
    ],
)
async def test_grep_answers_alike_with_and_without_ripgrep(
    project: Path, engine: str, arguments: dict[str, Any], text: str
) -> None:
    out = await grep_tool(engine).run(arguments, Place(cwd=project))

    assert not out.failed
    assert out.text == text


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"pattern": "("}, "regex parse error"),
        ({"pattern": "x", "path": "gone"}, "gone does not exist"),
        ({"pattern": "x", "glob": "../*"}, "leaves the folder"),
        ({"pattern": "x", "output_mode": "odd"}, "output_mode"),
    ],
)
async def test_grep_fails_in_words(
    project: Path, engine: str, arguments: dict[str, Any], said: str
) -> None:
    out = await grep_tool(engine).run(arguments, Place(cwd=project))

    assert out.failed
    assert said in out.text
