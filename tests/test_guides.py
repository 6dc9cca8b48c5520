"""The guides are true: their programs run, their commands exist, their links resolve."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from clew.cli.arguments import parse_arguments
from clew.core.errors import SessionError
from clew.core.events import EVENT_TYPES
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.providers.embedded.model_file import model_path
from clew.providers.scripted import ScriptedProvider
from clew.sdk.options import REJECTED, InteractiveOptions
from clew.sdk.session import InteractiveSession
from scripts.reference.__main__ import TABLES
from tests.guides import blocks
from tests.rows import each_row

ROOT = Path(__file__).parent.parent
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*GUIDES, ROOT / "AGENTS.md", *sorted((ROOT / "docs" / "reference").glob("*.md"))]
LEAVING = {"quit", "exit"}
NAMES_OF_TELEMETRY = ("clew.compact", "clew.context.", "clew.cost_usd", "clew.purpose")
"""Spans, attributes and metrics."""
NOT_COMMANDS = {"command"}
"""Placeholders after a slash in the guides."""


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def with_programs() -> list[Path]:
    return [path for path in GUIDES if any(True for _ in blocks(text_of(path)))]


@pytest.mark.slow("starts a process for each guide")
@pytest.mark.parametrize("path", with_programs(), ids=lambda path: path.stem)
def test_the_programs_of_a_guide_run(path: Path, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    environ = {
        "HOME": str(home),
        "CLEW_HOME": str(home / ".clew"),
        "CLEW_CACHE": str(model_path().parents[1]),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
    }
    if "Embedded()" in text_of(path) and not model_path().is_file():
        pytest.skip("needs the model: clew models get")

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.guides", str(path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=work,
        env=environ,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_only_the_guide_to_extensions_has_code_that_is_not_run() -> None:
    shown = [path.stem for path in GUIDES for _ in re.findall(r"(?m)^```python$", text_of(path))]

    assert shown == ["extending"]


def command_lines(page: str) -> Iterator[list[str]]:
    """Yield the arguments of each `clew …` in the fences for the shell."""
    for fence in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for line in fence.splitlines():
            words = shlex.split(line, comments=True)
            for place, word in enumerate(words):
                if word in ("clew", ".venv/bin/clew"):
                    rest = words[place + 1 :]
                    ends = [i for i, end in enumerate(rest) if end in ("|", ">", "&&", "<")]
                    yield rest[: ends[0]] if ends else rest
                    break


@each_row("path", GUIDES)
def test_the_command_line_parses_every_command_of_a_guide(path: Path) -> None:
    for arguments in command_lines(text_of(path)):
        parse_arguments(arguments)


@each_row("path", GUIDES)
def test_every_slash_command_in_a_guide_exists(path: Path) -> None:
    known = {command.name for command in BuiltinCommandSource().commands()}
    without_fences = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"`/([a-z]+)(?![a-z:/.-])", without_fences))

    assert named - known - LEAVING - NOT_COMMANDS - examples(path) == set()


def examples(path: Path) -> set[str]:
    """Return the skills and commands that a guide makes up."""
    made_up = {
        "commands": {"audit"},
        "plugins": {"sweep"},
        "project": {"review"},
        "terminal": {"review"},
    }
    return made_up.get(path.stem, set())


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_generated_table_of_a_guide_is_current(path: Path) -> None:
    page = text_of(path)

    assert TABLES[path](page) == page, "run: .venv/bin/python -m scripts.reference"


def test_the_sdk_guide_lists_every_event() -> None:
    page = text_of(ROOT / "docs" / "sdk.md")
    listed = re.search(r"<!-- events: begin -->(.*)<!-- events: end -->", page, re.DOTALL)

    assert listed is not None
    assert re.findall(r"^\| `(\w+)` \|", listed[1], re.MULTILINE) == list(EVENT_TYPES)


def test_the_sdk_guide_names_the_options_that_an_interactive_session_takes() -> None:
    page = text_of(ROOT / "docs" / "sdk.md").partition("| option | meaning |")[2]
    table, _, rest = page.partition("All options of")
    cells = [line.split("|")[1] for line in table.splitlines()[2:] if line]
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    sets_itself = re.findall(r"`(\w+)`", rest.partition("sets itself:")[2].partition(". The")[0])

    assert len(listed) > 30
    assert listed <= InteractiveOptions.__annotations__.keys() - REJECTED
    assert set(sets_itself) == REJECTED


def test_the_getters_that_need_an_open_session_are_those_that_the_sdk_guide_names() -> None:
    page = text_of(ROOT / "docs" / "sdk.md")
    (row,) = [line for line in page.splitlines() if "raise `SessionError` before `open()`" in line]
    listed = [
        re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
        for name in re.findall(r"`(\w+)\(\)`", row.split("|")[1])
    ]
    session = InteractiveSession(cwd=".", provider=ScriptedProvider([]))
    getters = [name for name in dir(session) if name.startswith(("get_", "list_commands"))]
    raising = []
    for name in getters:
        try:
            getattr(session, name)()
        except SessionError:
            raising.append(name)

    assert sorted(listed) == raising


def resolve(name: str) -> object:
    """Import a dotted name: a module, or something in one."""
    module, _, attribute = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(resolve(module), attribute)


@each_row("path", GUIDES)
def test_every_dotted_name_in_a_guide_exists(path: Path) -> None:
    names = set(re.findall(r"`(clew(?:\.\w+)+)", text_of(path))) - {"clew.py", "clew.toml"}
    names -= {name for name in names if name.startswith(NAMES_OF_TELEMETRY)}

    for name in sorted(names):
        resolve(name)


def anchors(path: Path) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_row("path", PAGES)
def test_every_link_resolves(path: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@each_row("path", PAGES)
def test_a_guide_is_written_in_plain_english(path: Path) -> None:
    quaint = r"\b(?:shall|somebody|whoever)\b|so many|go on with|what had|is no name|be told"

    assert re.findall(quaint, text_of(path)) == []


def test_the_readme_lists_every_guide() -> None:
    readme = text_of(ROOT / "README.md")

    assert [path.name for path in GUIDES[1:] if f"(docs/{path.name})" not in readme] == []


def test_agents_md_names_only_files_that_exist() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text_of(ROOT / "AGENTS.md"))
    places = (ROOT, ROOT / "src" / "clew")

    assert len(named) > 20
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []
    assert text_of(ROOT / "AGENTS.md").count("\n") <= 100
