"""What each entry point of Clew imports, and what it must not import."""

import subprocess
import sys
from pathlib import Path

import pytest

from clew.core import redaction

LIGHT = {"anyio", "clew", "exceptiongroup", "idna", "msgspec", "sniffio", "typing_extensions"}
"""The only third-party packages that may be imported before they are needed."""
SLOW = {
    "aiohttp",
    "asyncio",
    "dataclasses",
    "email",
    "hashlib",
    "json",
    "logging",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
}
"""Modules that are slow to import and that no session needs before it runs."""
LATER = {
    "clew.providers.connections",
    "clew.dict_messages",
    "clew.simulation",
    "clew.stores.postgres",
}
"""Parts of Clew that no command needs at its start."""
SELDOM = LATER | {
    "clew.core.redaction.scan",
    "clew.permissions.shell",
    "clew.checkpoints.file_checkpoints",
    "clew.context.clearing_plan",
    "clew.context.compaction_plan",
    "clew.context.digest.passages",
    "clew.context.loss_report",
    "clew.context.prepared_summary",
    "clew.context.recall.search",
    "clew.context.snapshot",
    "clew.context.strategies.compact",
    "clew.context.strategies.custom",
    "clew.context.strategies.sliding_window",
    "clew.importers",
    "clew.log.writer",
    "clew.providers.catalogue",
    "clew.session.background_compaction",
    "clew.session.calibrations",
    "clew.session.compaction",
    "clew.session.history",
    "clew.session.journal_snapshot",
    "clew.session.summary_notes",
    "clew.stores.sqlite",
}
"""Parts that a program with a plain `Session` does not need."""
LIBRARY = {
    "clew._safe_path",
    "clew._version",
    "clew.checkpoints",
    "clew.context",
    "clew.core",
    "clew.hooks",
    "clew.log",
    "clew.permissions",
    "clew.providers",
    "clew.session",
    "clew.stores",
    "clew.tools",
}
MOST_MODULES = 99
"""Clew modules that `Session` imports; each takes about a quarter of a millisecond."""

MARK = "modules:"
RUN = """
import anyio
from clew import Session
from clew.providers.scripted import ScriptedProvider

async def main():
    async with Session(ScriptedProvider(["hi"]), model="m") as session:
        await session.run("hello")

anyio.run(main)
"""
COMMANDS = (
    ("--version",),
    ("config", "show"),
    ("models", "path"),
    ("sessions", "list"),
)


def test_import_clew_imports_no_other_module_of_clew() -> None:
    loaded = _loaded("import clew")

    assert {name for name in loaded if name.startswith("clew")} == {
        "clew",
        "clew._safe_path",
        "clew._version",
    }
    assert _foreign(loaded) == {"clew"}


def test_the_engine_of_durable_tasks_is_imported_only_when_one_is_spawned() -> None:
    parts = (
        "clew.cli.print_mode, clew.sdk.worker, clew.sdk.durable_store, clew.runtime.durable_runner"
    )

    assert _loaded(f"import {parts}").isdisjoint({"dbos", "sqlalchemy", "clew.runtime.dbos"})


def test_a_session_imports_only_its_own_layers() -> None:
    loaded = _loaded("from clew import Session")
    own = {name for name in loaded if name.startswith("clew.")}

    assert {".".join(name.split(".")[:2]) for name in own} <= LIBRARY
    assert own.isdisjoint(SELDOM)
    assert not {name for name in own if name.startswith(("clew.providers.wire", "clew.tools.b"))}
    assert len(own) <= MOST_MODULES


def test_a_session_imports_no_slow_package() -> None:
    loaded = _loaded("from clew import Session")

    assert _foreign(loaded) <= LIGHT
    assert loaded.isdisjoint(SLOW)


def test_a_session_imports_no_log_checkpoints_or_network_unless_it_uses_them() -> None:
    loaded = _loaded(RUN)

    assert _foreign(loaded) <= LIGHT
    assert loaded.isdisjoint(SELDOM)


def test_an_interactive_session_imports_no_digest_before_a_compaction() -> None:
    loaded = _loaded("from clew import InteractiveSession")

    assert not {name for name in loaded if name.startswith("clew.context.digest")}
    assert "clew.session.compaction" not in loaded


def test_an_interactive_session_imports_no_event_loop_network_or_database_before_it_runs() -> None:
    loaded = _loaded("from clew import InteractiveSession")

    assert loaded.isdisjoint({"aiohttp", "asyncio", "ctypes", "socket", "sqlite3", "ssl"})


@pytest.mark.parametrize("name", ["print_mode", "prompt"])
def test_the_http_client_is_imported_only_for_a_model_call(name: str) -> None:
    loaded = _loaded(f"import clew.cli.{name}")

    assert _foreign(loaded) <= LIGHT
    assert loaded.isdisjoint(LATER)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_without_a_model_imports_no_package_for_one(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    code = f"from clew.cli.main import main\nassert main({list(command)!r}) == 0"

    loaded = _loaded(code, cwd=tmp_path)

    assert _foreign(loaded) <= LIGHT
    assert loaded.isdisjoint(LATER)


def test_printing_the_version_imports_no_other_part_of_the_command_line() -> None:
    loaded = _loaded("from clew.cli.main import main\nmain(['--version'])")

    assert {name for name in loaded if name.startswith("clew.cli.")} == {"clew.cli.main"}


def test_reading_settings_imports_no_tools() -> None:
    loaded = _loaded("import clew.config.settings, clew.config.trust")

    assert not {name for name in loaded if name.startswith("clew.tools.builtin")}
    assert loaded.isdisjoint({"tomllib", "difflib"} | SELDOM)


def test_the_patterns_of_secrets_are_imported_with_the_first_redaction() -> None:
    assert "clew.core.redaction.scan" not in _loaded("from clew.core.redaction import redact")
    assert "clew.core.redaction.scan" in _loaded(
        "from clew.core.redaction import redact\nredact('a')"
    )


def test_lazy_names_are_found_and_unknown_ones_are_not() -> None:
    assert {redaction.Redactor.__name__, redaction.StreamRedactor.__name__} <= set(
        redaction.__all__
    )
    with pytest.raises(AttributeError, match="Redacter"):
        _ = redaction.Redacter


def _foreign(loaded: set[str]) -> set[str]:
    """Return the packages that are neither Python's own nor of how it was set up here."""
    bare = _loaded("")
    return {name.partition(".")[0] for name in loaded - bare} - set(sys.stdlib_module_names)


def _loaded(code: str, cwd: Path | None = None) -> set[str]:
    """Return the modules that a new process has loaded after running `code`."""
    told = f"import sys; print({MARK!r}, *sys.modules, sep='\\n', file=sys.stderr)"
    home = {} if cwd is None else {"HOME": str(cwd), "CLEW_HOME": str(cwd / ".clew")}
    child = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", **home},
    )
    return set(child.stderr.rpartition(MARK)[2].split())
