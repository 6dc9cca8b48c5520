"""No command passes a control sequence of a name, a file or a model on to a terminal.

The folder, the store, the settings, the logs and the recordings below contain all of them in every
field that a command may print. A new command must be added to `COMMANDS`.
"""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import pytest

from clew import Session
from clew.cli.arguments import parser
from clew.cli.main import main
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.sdk.folders import store_path
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools

SEQUENCES = {
    "colour": "\x1b[31m",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.test\x1b\\",
    "clipboard": "\x1b]52;c;eA==\x07",
    "device": "\x1bP$q\x1b\\",
    "c1": "\x9b2J\x9d0;owned\x9c\x85",
    "carriage": "safe\rowned",
    "backspace": "safe\b\b\b\b",
    "delete": "\x7f",
    "bell": "\x07\x0e\x0f",
    "bidi": "\u202eexe\u202c\u2066\u2069\u200f\u061c",
    "lines": "\u2028\u2029",
    "tags": "\U000e0041\U000e007f",
    "xml": "\x0b\x0c\ufffe\uffff",
}
HOSTILE = " ".join(SEQUENCES.values())
IN_A_NAME = "\x1b]0;owned\x07 \x1b[2J \x9b31m \r \x7f \u202e \u2028 \udc9b"
"""The last character stands for a byte that is not UTF-8."""
SURROGATE = "\ud800 \udfff \udc9b"
RAW = {
    *map(chr, (*range(9), *range(11, 32), *range(0x7F, 0xA0), *range(0x202A, 0x202F))),
    *map(chr, (*range(0x2066, 0x2070), *range(0xE0000, 0xE0080), 0x200E, 0x200F, 0x61C)),
    *map(chr, (0x2028, 0x2029, 0xFFFE, 0xFFFF, 0xFFFD - 4)),
}
LINES = ("agents", "log", "permissions", "sessions")
"""Commands whose JSON is one value a line."""
S = SessionId("aaaa11112222")

COMMANDS: dict[str, list[list[str]]] = {
    "config accept": [["config", "accept"]],
    "config check": [["config", "check"]],
    "config forget": [["config", "forget"]],
    "config get": [["config", "get", "model"], ["config", "get", HOSTILE]],
    "config path": [["config", "path"]],
    "config schema": [["config", "schema"]],
    "config set": [["config", "set", HOSTILE, HOSTILE], ["config", "set", "model", HOSTILE]],
    "config show": [["config", "show"], ["config", "show", "--json"]],
    "config unset": [["config", "unset", HOSTILE]],
    "demo": [],  # its text is its own, and the embedded model's
    "doctor": [["doctor"], ["doctor", "--json"]],
    "log replay": [["log", "replay", "LOG"], ["log", "replay", HOSTILE]],
    "log show": [
        ["log", "show", "LOG"],
        ["log", "show", "LOG", "--json"],
        ["log", "show", "LOG", "--history"],
        ["log", "show", "TORN"],
    ],
    "log validate": [["log", "validate", "LOG", "TORN"], ["log", "validate", HOSTILE]],
    "models get": [["models", "get", "--wheel", HOSTILE]],
    "models path": [["models", "path"]],
    "permissions log": [
        ["permissions", "log", S],
        ["permissions", "log", S, "--json"],
        ["permissions", "log", HOSTILE],
    ],
    "sessions delete": [["sessions", "delete", HOSTILE]],
    "sessions export": [["sessions", "export", HOSTILE]],  # a session itself is exported exactly
    "sessions fork": [["sessions", "fork", S, "--name", HOSTILE], ["sessions", "fork", HOSTILE]],
    "sessions import": [["sessions", "import", "RECORDING"], ["sessions", "import", "TORN"]],
    "sessions list": [
        ["sessions", "list", "--all"],
        ["sessions", "list", "--all", "--json"],
        ["sessions"],
    ],
    "sessions recall": [
        ["sessions", "recall", S, "owned"],
        ["sessions", "recall", S, "owned", "--json"],
        ["sessions", "recall", S, "#2"],
        ["sessions", "recall", S, HOSTILE],
    ],
    "sessions rename": [["sessions", "rename", S, HOSTILE], ["sessions", "rename", HOSTILE, "x"]],
    "sessions search": [
        ["sessions", "search", "owned"],
        ["sessions", "search", "owned", "--json"],
        ["sessions", "search", HOSTILE],
    ],
    "sessions show": [["sessions", "show", S], ["sessions", "show", S, "--json"]],
    "simulate": [
        ["simulate", "RECORDING", "TORN", "--chart", "chart.svg"],
        ["simulate", "RECORDING", "--json"],
        ["simulate", "RECORDING", "--model", HOSTILE],
        ["simulate", "RECORDING", "--strategy", HOSTILE],
    ],
    "completions": [["completions", HOSTILE]],
    "acp": [["acp", HOSTILE]],
    "agents answer": [["agents", "answer", HOSTILE, "y"], ["agents", "answer", S, HOSTILE]],
    "agents list": [["agents"], ["agents", "list", "--json"], ["agents", "list", HOSTILE]],
    "agents read": [["agents", "read", HOSTILE]],
    "agents send": [["agents", "send", HOSTILE, HOSTILE]],
    "agents stop": [["agents", "stop", HOSTILE]],
    "mcp add": [["mcp", "add", HOSTILE, "echo"], ["mcp", "add", "a", HOSTILE]],
    "mcp add-json": [["mcp", "add-json", HOSTILE, "{}"], ["mcp", "add-json", "a", HOSTILE]],
    "mcp get": [["mcp", "get", HOSTILE]],
    "mcp list": [["mcp", "add", "a", HOSTILE], ["mcp", "list"]],
    "mcp login": [["mcp", "login", HOSTILE]],
    "mcp logout": [["mcp", "logout", HOSTILE]],
    "mcp remove": [["mcp", "remove", HOSTILE]],
    "mcp serve": [["mcp", "serve", HOSTILE]],
    "mcp test": [["mcp", "test", HOSTILE]],
    "plugin disable": [["plugin", "disable", HOSTILE]],
    "plugin enable": [["plugin", "enable", HOSTILE]],
    "plugin install": [
        ["plugin", "install", HOSTILE],
        ["plugin", "install", "PLUGIN", "--yes"],
    ],
    "plugin list": [
        ["plugin", "install", "PLUGIN", "--yes"],
        ["plugin", "list"],
        ["plugin", "list", "--json"],
    ],
    "plugin marketplace add": [["plugin", "marketplace", "add", HOSTILE]],
    "plugin marketplace list": [["plugin", "marketplace", "list"]],
    "plugin marketplace remove": [["plugin", "marketplace", "remove", HOSTILE]],
    "plugin marketplace search": [["plugin", "marketplace", "search", HOSTILE]],
    "plugin marketplace update": [["plugin", "marketplace", "update", HOSTILE]],
    "plugin remove": [["plugin", "remove", HOSTILE]],
    "plugin show": [["plugin", "show", "PLUGIN"], ["plugin", "show", HOSTILE]],
    "plugin update": [["plugin", "update", HOSTILE]],
    "plugin validate": [["plugin", "validate", "PLUGIN"], ["plugin", "validate", HOSTILE]],
    "serve user add": [["serve", "user", "add", HOSTILE]],
    "serve user list": [["serve", "user", "list"]],
    "serve user remove": [["serve", "user", "remove", HOSTILE]],
    "schedule": [
        ["schedule", HOSTILE, "-p", HOSTILE],
        ["schedule", "every day 9:00", "-p", HOSTILE],
        ["schedule", "list"],
        ["schedule", "remove", HOSTILE],
    ],
    "worker": [["worker", "--concurrency", HOSTILE], ["worker", HOSTILE]],
    "-p": [
        ["-p", HOSTILE, "--base-url", "http://127.0.0.1:9", "--model", HOSTILE],
        ["-p", "x", "--resume", HOSTILE],
        ["-p", "x", "--model", HOSTILE, "--output-format", "json"],
        ["-p", "x", "--provider", HOSTILE],
        ["--unknown", HOSTILE],
        [f"--{HOSTILE}"],
        ["sessions", HOSTILE],
        ["-p", "x", "--json-schema", HOSTILE],
        ["-p", "x", "--allowed-tools", HOSTILE],
    ],
}


def leaves(node: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    """Yield the name of every subcommand that has no subcommands of its own."""
    below = [
        action.choices for action in node._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not below:
        yield name.strip()
    for choices in below:
        for word, inner in choices.items():
            yield from leaves(inner, f"{name} {word}")


def test_every_command_is_listed_here() -> None:
    assert set(leaves(parser())) == COMMANDS.keys() - {"-p"}


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("log")])
def test_the_error_about_a_setting_has_no_control_sequence(
    name: str, hostile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (hostile / ".clew" / "settings.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    for arguments in COMMANDS[name][:1]:
        run([replace(each) for each in arguments])
        out, err = capfd.readouterr()

        assert sorted(RAW & set(out + err)) == [], arguments


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_no_control_sequence(
    name: str, hostile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for arguments in COMMANDS[name]:
        capfd.readouterr()
        run([replace(each) for each in arguments])
        out, err = capfd.readouterr()

        assert sorted(RAW & set(out + err)) == [], arguments
        assert "Traceback" not in err
        if "--json" in arguments:
            for line in out.splitlines() if arguments[0] in LINES else [out]:
                json.loads(line)
    for chart in hostile.glob("*.svg"):
        text = chart.read_text(encoding="utf-8")
        ET.fromstring(text)
        assert sorted(RAW & set(text)) == []


def run(arguments: list[str]) -> None:
    with suppress(SystemExit):  # bad usage
        main(arguments)


def replace(argument: str) -> str:
    known = {
        "LOG": f"{IN_A_NAME}.jsonl",
        "TORN": f"torn {IN_A_NAME}.jsonl",
        "RECORDING": f"claude {IN_A_NAME}.jsonl",
        "PLUGIN": f"./plugin {IN_A_NAME}",
    }
    return known.get(argument, argument)


def write_plugin(root: Path) -> None:
    """Write a plugin whose descriptions, files and hooks are hostile."""
    (root / ".claude-plugin").mkdir(parents=True)
    (root / "commands").mkdir()
    manifest = {"name": "tidy", "description": HOSTILE, "author": {"name": HOSTILE}}
    (root / ".claude-plugin" / "plugin.json").write_text(json.dumps(manifest))
    (root / "commands" / f"{IN_A_NAME}.md").write_text(f"---\ndescription: x\n---\n{HOSTILE}")
    hook = {"hooks": [{"type": "command", "command": f"true {HOSTILE}"}], "matcher": HOSTILE}
    (root / "hooks").mkdir()
    (root / "hooks" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose name, files, settings, sessions and logs are hostile, as current folder."""
    folder = tmp_path / f"folder {IN_A_NAME}"
    (folder / ".clew").mkdir(parents=True)
    for name in [name for name in os.environ if name.endswith(("_KEY", "_TOKEN", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "HOME": str(tmp_path),
        "CLEW_HOME": str(tmp_path / f"home {IN_A_NAME}"),
        "CLEW_CACHE": str(tmp_path / "cache"),
        "NO_COLOR": "1",
        "TERM": "dumb",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    write_plugin(folder / f"plugin {IN_A_NAME}")
    settings = {"model": HOSTILE, "env": {"OWNED": HOSTILE}}
    (folder / ".clew" / "settings.json").write_text(json.dumps(settings))
    (folder / f"torn {IN_A_NAME}.jsonl").write_text(f'{{"event": "{HOSTILE}"\n{HOSTILE}\n')
    (folder / f"claude {IN_A_NAME}.jsonl").write_text("".join(recording()))
    anyio.run(talk, folder)
    return folder


def recording() -> Iterator[str]:
    """Yield the lines of a session of Claude Code; one of them is torn."""
    base = {"sessionId": HOSTILE, "cwd": HOSTILE, "timestamp": "2025-01-01T00:00:00Z"}
    said = {"role": "user", "content": f"{HOSTILE} {SURROGATE}"}
    yield json.dumps({**base, "type": "user", "uuid": "1", "message": said}) + "\n"
    yield f'{{"type": "assistant" {HOSTILE}\n'
    answer = {"role": "assistant", "model": HOSTILE, "content": [{"type": "text", "text": HOSTILE}]}
    line = {**base, "type": "assistant", "uuid": "2", "parentUuid": "1", "message": answer}
    yield json.dumps(line) + "\n"
    yield json.dumps({**base, "type": HOSTILE, "uuid": HOSTILE}) + "\n"


async def talk(folder: Path) -> None:
    """Store a session with hostile names, and its log."""
    store = SqliteStore(store_path(folder))
    provider = ScriptedProvider(
        [call_reply((HOSTILE, {HOSTILE: HOSTILE}), ("Read", {"file_path": HOSTILE})), HOSTILE],
        ModelFacts(name=HOSTILE, window=50_000),
    )
    async with Session(
        provider,
        model=HOSTILE,
        tools=builtin_tools(),
        store=store,
        session_id=S,
        cwd=folder,
        session_log=SessionLog(folder.parent / "logs"),
    ) as session:
        await session.run(HOSTILE)
    await store.aclose()
    (log,) = (folder.parent / "logs").glob("*.jsonl")
    log.rename(folder / f"{IN_A_NAME}.jsonl")
