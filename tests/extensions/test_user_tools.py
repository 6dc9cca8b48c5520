"""Tools, providers and stores of the user's own: from files after trust, and from packages."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.errors import ConfigError
from clew.files.entry_points import find_installed
from clew.providers.registry import find_family, find_model, get_family
from clew.providers.scripted import call_reply
from clew.sdk.diagnostics import check_extensions
from clew.sdk.settings import ProjectSettings
from clew.sdk.system_checks import Level, Machine
from clew.stores import open_store
from clew.stores.memory import MemoryStore
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-9")]

TOOL = """
from clew import Risk, tool

@tool(risk=Risk.INSPECT)
def {name}() -> str:
    '''Say hello.'''
    return "hello from {name}"
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def own_tool(place: Place, name: str, text: str) -> Path:
    folder = place.clew_home / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of `sys.path` with a package that offers parts."""
    folder = tmp_path / "site"
    info = folder / "mazes-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mazes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[clew.tools]\none = mazes_parts:one\nmany = mazes_parts:many\nbad = mazes_missing:x\n"
        "[clew.providers]\nlabyrinth = mazes_parts:make_provider\nbroken = mazes_missing:x\n"
        "[clew.stores]\nmaze = mazes_parts:make_store\n"
    )
    (folder / "mazes_parts.py").write_text(
        TOOL.format(name="one")
        + TOOL.format(name="two")
        + "\ndef many():\n    return [two]\n"
        + "\nfrom clew.providers.scripted import ScriptedProvider\n"
        + "def make_provider(settings):\n    return ScriptedProvider(['hi'], name='labyrinth')\n"
        + "\nfrom clew.stores.memory import MemoryStore\n"
        + "def make_store(address):\n    return MemoryStore()\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("mazes_parts", None)


async def test_a_file_of_the_user_adds_a_tool(place: Place) -> None:
    own_tool(place, "greet.py", TOOL.format(name="greet"))
    own_tool(place, "_private.py", "raise SystemExit")
    async with place.session([call_reply(("greet", {})), "done"]) as session:
        result = await session.run("go")

        assert result.tool_summaries[0].tool_result_data == "hello from greet"
        listed = (await session.execute("/tools")).message
        assert "(~/.clew/tools/greet.py)" in listed


async def test_a_file_of_the_project_is_loaded_only_after_trust(place: Place) -> None:
    ran = place.root / "ran"
    path = place.write(
        ".clew/tools/deploy.py",
        f"open({str(ran)!r}, 'w').close()\n" + TOOL.format(name="deploy"),
    )
    heard = Heard()
    session = place.session(["a"])
    session.on_any(heard)
    async with session:
        await session.run("go")
        assert "deploy" not in {spec.name for spec in place.provider.requests[0].tools}
    assert not ran.exists()
    assert any("tools in deploy.py" in event.text for event in heard.of("warning"))

    settings = ProjectSettings(place.project, {"CLEW_HOME": str(place.clew_home)})
    settings.accept(settings.load())
    async with place.session(["a"]) as session:
        await session.run("go")
        assert "deploy" in {spec.name for spec in place.provider.requests[0].tools}
    assert ran.exists()

    path.write_text(path.read_text() + "\n# changed\n")
    async with place.session(["a"]) as session:
        await session.run("go")
        assert "deploy" not in {spec.name for spec in place.provider.requests[0].tools}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x = 1\nraise ValueError('no maze')\n", 2, "ValueError: no maze"),
        ("def f(:\n", 1, "SyntaxError"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("\n\nimport not_there_at_all\n", 3, "ModuleNotFoundError"),
        ("\n\n\nfrom clew import tool\n@tool\ndef f(x): pass\n", 5, "TypeError"),
    ],
)
async def test_a_file_that_fails_is_named_with_its_line(
    place: Place, text: str, line: int, reason: str
) -> None:
    path = own_tool(place, "bad.py", text)
    own_tool(place, "good.py", TOOL.format(name="good"))
    heard = Heard()
    session = place.session(["fine"])
    session.on_any(heard)
    async with session:
        await session.run("go")

        assert "good" in {spec.name for spec in place.provider.requests[0].tools}
    (warning,) = [event.text for event in heard.of("warning") if "bad.py" in event.text]
    assert f"{path}, line {line}," in warning
    assert reason in warning


async def test_names_that_are_taken_are_warned_about(place: Place) -> None:
    own_tool(place, "a.py", TOOL.format(name="Read") + TOOL.format(name="same"))
    own_tool(place, "b.py", TOOL.format(name="same") + TOOL.format(name="ExitPlanMode"))
    own_tool(place, "empty.py", "x = 1\n")
    heard = Heard()
    session = place.session(["fine"])
    session.on_any(heard)
    async with session:
        await session.run("go")

        warned = [event.text for event in heard.of("warning")]
        assert any("Read of" in text and "built-in" in text for text in warned)
        assert any("same of" in text and "a.py has that name" in text for text in warned)
        assert any("ExitPlanMode of" in text for text in warned)
        assert any("empty.py has no tools" in text for text in warned)


async def test_a_session_with_tools_of_its_own_loads_no_others(place: Place) -> None:
    ran = place.root / "ran"
    own_tool(place, "greet.py", f"open({str(ran)!r}, 'w').close()\n" + TOOL.format(name="greet"))
    async with place.session(["fine"], tools=[]) as session:
        await session.run("go")

        assert "greet" not in {spec.name for spec in place.provider.requests[0].tools}
        assert not ran.exists()


async def test_packages_offer_tools(place: Place, package: Path) -> None:
    heard = Heard()
    session = place.session([call_reply(("two", {})), "done"])
    session.on_any(heard)
    async with session:
        result = await session.run("go")

        assert result.tool_summaries[0].tool_result_data == "hello from two"
        listed = (await session.execute("/tools")).message
        assert "(package mazes (mazes_parts:one))" in listed
    assert any("mazes_missing:x) is not loaded" in event.text for event in heard.of("warning"))
    assert find_installed("clew.tools", [str(package / "nowhere")]) == []


def test_packages_offer_providers_and_stores(package: Path) -> None:
    assert package.is_dir()
    assert find_model("labyrinth/m").family.make(get_family("labyrinth").settings({})).name == (
        "labyrinth"
    )
    assert find_family("no such provider") is None
    with pytest.raises(ConfigError, match="mazes_missing"):
        find_family("broken")
    with pytest.raises(ConfigError, match="there is no provider"):
        get_family("nothing")
    assert isinstance(open_store("maze://here"), MemoryStore)
    with pytest.raises(ConfigError, match="redis:// is not a session store"):
        open_store("redis://here")


def test_in_the_home_folder_the_tools_are_the_user_s_own(place: Place) -> None:
    own_tool(place, "greet.py", TOOL.format(name="greet"))

    loaded = ProjectSettings(place.home, {"CLEW_HOME": str(place.clew_home)}).load()

    assert (loaded.tool_files, loaded.withheld) == ((), ())


def test_the_doctor_lists_extensions(place: Place, package: Path) -> None:
    assert package.is_dir()
    own_tool(place, "greet.py", TOOL.format(name="greet"))
    own_tool(place, "bad.py", "raise ValueError\n")
    place.write(".clew/tools/deploy.py", TOOL.format(name="deploy"))
    machine = Machine(
        cwd=place.project,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
        servers={},
    )

    found = list(check_extensions(machine))

    texts = [finding.text for finding in found]
    assert "greet from ~/.clew/tools/greet.py" in texts
    assert "labyrinth from package mazes (mazes_parts:make_provider)" in texts
    assert "maze from package mazes (mazes_parts:make_store)" in texts
    assert any("bad.py, line 1," in text for text in texts)
    assert any(f.level is Level.NOTE and "not loaded" in f.text for f in found)


async def test_files_that_cannot_be_read_are_named(place: Place) -> None:
    own_tool(place, "large.py", "#" * 1_000_001)
    (place.clew_home / "tools" / "link.py").symlink_to(place.project)
    for number in range(50):
        own_tool(place, f"many{number:02}.py", TOOL.format(name=f"many{number:02}"))
    heard = Heard()
    session = place.session([])
    session.on_any(heard)
    async with session:
        warned = [event.text for event in heard.of("warning")]
        assert any("large.py is not loaded: it has more than" in text for text in warned)
        assert any("link.py is not loaded: it cannot be read" in text for text in warned)
        assert any("many49.py is not loaded: only 50 files" in text for text in warned)
