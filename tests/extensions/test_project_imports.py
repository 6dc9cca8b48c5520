"""Where an `@` in Markdown is an import, and that no tree of imports does harm."""

import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.extensions.project import load_project
from clew.extensions.project.imports import find_imports
from clew.extensions.project.instructions import MAX_ALL, MAX_FILE
from tests.rows import each_row

pytestmark = pytest.mark.req("PCX-1")


@each_row(
    ("text", "found"),
    [
        ("@a.md", ("a.md",)),
        ("See @README for more, and @package.json.", ("README", "package.json.")),
        ("- item\n    - @nested/in/a-list.md", ("nested/in/a-list.md",)),
        ("1. one\n\n    @in-an-item.md", ("in-an-item.md",)),
        ("**@bold.md** and *@plain.md*", ("bold.md**", "plain.md*")),
        ("@./a @../b @~/c @/d", ("./a", "../b", "~/c", "/d")),
        ("@with\\ a\\ space.md#part", ("with a space.md",)),
        ("@문서/규칙.md", ("문서/규칙.md",)),
        ("@twice.md @twice.md", ("twice.md",)),
        ("me@example.com and (@aside.md) are none", ()),
        ("@ @@a.md @#x @~user/y @/ @.. @(z)", ()),
        ("`@code.md` and ``a ` @more.md``", ()),
        ("`open @a.md\n\nand ` closed", ("a.md",)),
        ("`over\n@two-lines.md` @real.md", ("real.md",)),
        ("```\n@a.md\n```\n@b.md", ("b.md",)),
        ("````md\n```\n@a.md\n```\n@c.md\n````\n@b.md", ("b.md",)),
        ("~~~\n```\n@a.md\n~~~\n@b.md", ("b.md",)),
        ("- ```\n  @a.md\n  ```\n- @b.md", ("b.md",)),
        ("> ```\n> @a.md\n> ```\n\n> @b.md", ("b.md",)),
        ("``` not `a fence\n@b.md", ("b.md",)),
        ("```\n@never closed.md", ()),
        ("text\n\n    @indented.md\n\n@b.md", ("b.md",)),
        ("text\n\n\t@indented.md", ()),
        ("text\n    @goes-on.md", ("goes-on.md",)),
        ("<!--\n@a.md\n```\n-->\n@b.md", ("b.md",)),
        ("a <!-- @a.md --> @b.md <!-- @open.md", ("b.md", "open.md")),
    ],
)
def test_an_import_is_one_only_in_prose(text: str, found: tuple[str, ...]) -> None:
    assert find_imports(text) == found


@each_row(
    "piece", ["<!--", "`", "`` ` ", "@a ", "- ", "```\n", "\n    ", "@\\ ", "> - ", "1. ", "*_"]
)
def test_odd_text_is_read_in_time(piece: str) -> None:
    text = piece * (MAX_FILE // len(piece)) + "@"
    started = time.perf_counter()

    find_imports(text)

    assert time.perf_counter() - started < 2


NAMES = ("CLAUDE.md", "AGENTS.md", "a.md", "b.md", "c.md", "sub/CLAUDE.md", "sub/d.md", "e.bin")
OUTSIDE = ("other/f.md", "other/g.md", ".ssh/key", ".claude/h.md", ".claude/i.json", "j.md")
TARGETS = st.sampled_from(
    [
        *(f"@{name}" for name in NAMES),
        *(f"@../{name}" for name in ("a.md", "b.md", "CLAUDE.md", "other/f.md", "../j.md")),
        *(f"@~/{name}" for name in OUTSIDE),
        "@sub/../a.md",
        "@link.md",
        "@loop/a.md",
        "@nowhere.md",
        "`@b.md`",
    ]
)
HOMES_OWN = ".claude/h.md"
"""Markdown in a folder of the user's own: the one thing out there that may be imported."""
TREES = st.fixed_dictionaries(
    {},
    optional={
        name: st.just([]) if name == HOMES_OWN else st.lists(TARGETS, max_size=8)
        for name in (*NAMES, *OUTSIDE)
    },
)
LINKS = st.sampled_from(["a.md", "../other/f.md", "../../.ssh/key", "link.md", "sub"])


@pytest.mark.slow("makes 300 folders of files")
@given(tree=TREES, link=LINKS, big=st.sampled_from([0, 0, 0, 30_000, 100_000]))
def test_any_tree_of_imports_is_read_once_within_bounds_and_within_the_walls(
    tree: dict[str, list[str]], link: str, big: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        project = home / "work"
        (project / "sub").mkdir(parents=True)
        (project / ".git").mkdir()
        for name, imports in tree.items():
            inside = name in NAMES
            file = (project if inside else home) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            mark = f"{'inside' if inside else 'outside'}:{name};"
            file.write_text(f"{mark}\n{' '.join(imports)}\n" + "z\n" * (big // 2), encoding="utf-8")
        (project / "link.md").symlink_to(link)
        (project / "loop").symlink_to(".")

        found = load_project(project / "sub", user_home=home, clew_home=home / ".clew")

    text = found.agents_md + found.claude_md
    assert len(text.encode()) <= MAX_ALL
    marks = re.findall(r"(?:in|out)side:\S+;", text)
    assert len(marks) == len(set(marks))
    own = {mark for mark in marks if mark.startswith("outside:")}
    assert own <= {f"outside:{HOMES_OWN};"}
    assert len(found.warnings) <= 41
