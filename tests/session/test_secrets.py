"""A corpus of secrets through every way into a session: none is on disk, none reaches a model."""

import json
from pathlib import Path

import pytest

from clew import Session
from clew.core.errors import ProviderRejected
from clew.core.events import Event, RunFailed
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode
from clew.core.redaction import redact
from clew.hooks.context import HookContext
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, read_hooks
from clew.log.events import LogLevel
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.core.test_redaction import ALONE, TOKENS
from tests.event_buses import bus_for

pytestmark = pytest.mark.anyio

KINDS = sorted(set(TOKENS) - ALONE)


@pytest.mark.req("LOG-2", "TOL-2", "HOK-2")
async def test_no_secret_of_the_corpus_is_on_disk_or_sent(tmp_path: Path) -> None:
    secrets = {kind: TOKENS[kind]() for kind in KINDS}
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    lines = "\n".join(f"{kind}: {secret}" for kind, secret in secrets.items())
    (project / "notes.txt").write_text(lines)
    shout = {"type": "command", "command": f"cat {project}/notes.txt"}
    scold = {"type": "command", "command": f"cat {project}/notes.txt >&2; exit 2"}
    settings = {
        "hooks": {
            "SessionStart": [{"hooks": [shout]}],
            "UserPromptSubmit": [{"hooks": [shout]}],
            "PostToolUse": [{"matcher": "Read", "hooks": [scold]}],
            "PreToolUse": [{"matcher": "Glob", "hooks": [scold]}],
        }
    }
    table = read_hooks(json.dumps(settings).encode(), HookSource(name="settings"))
    provider = ScriptedProvider(
        [
            call_reply(
                ("Read", {"file_path": "notes.txt"}),
                ("Bash", {"command": "cat notes.txt; cat notes.txt >&2"}),
                ("Grep", {"pattern": ".", "output_mode": "content"}),
                ("Glob", {"pattern": "*"}),
                ("Edit", {"file_path": "notes.txt", "old_string": "nowhere", "new_string": "x"}),
            ),
            "done",
        ],
        ModelFacts(name="m", window=1_000_000),
    )
    store, events = SqliteStore(home / "sessions.db"), list[Event]()
    async with Session(
        provider,
        model="m",
        tools=builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF))),
        hooks=HookRunner(table, HookContext(project=project, redact=redact)),
        gate=Gate(cwd=project, mode=PermissionMode.BYPASS),
        cwd=project,
        store=store,
        session_log=SessionLog(home / "log", level=LogLevel.RAW),
        event_bus=bus_for(events.append),
    ) as session:
        await session.run("go")
    await store.aclose()

    stored = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file()).decode(
        errors="replace"
    )
    sent, shown = str(provider.requests), str(events)
    for kind, secret in secrets.items():
        body = secret.splitlines()[len(secret.splitlines()) // 2]
        assert body not in stored, f"{kind} is on disk"
        assert body not in sent, f"{kind} was sent"
        assert body not in shown, f"{kind} was shown"
    assert stored.count("[redacted:") > len(secrets) * 4
    assert len(secrets) >= 60


class KeyedProvider(ScriptedProvider):
    """A provider with a key that looks like no known kind."""

    secrets = ("key of the second provider",)


@pytest.mark.req("LOG-2")
async def test_the_key_of_a_provider_that_a_session_changes_to_is_redacted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(f"{KeyedProvider.secrets[0]} and more")
    read = call_reply(("Read", {"file_path": "notes.txt"}))
    second = KeyedProvider([read, "done"])

    async with Session(
        ScriptedProvider(["hi"]), model="m", tools=builtin_tools(), cwd=tmp_path
    ) as session:
        await session.run("hello")
        await session.set_model("m", provider=second)
        await session.run("go")

    sent = str(second.requests[-1])
    assert "[redacted:value] and more" in sent
    assert KeyedProvider.secrets[0] not in sent


@pytest.mark.req("LOG-2")
async def test_a_key_that_a_session_gains_is_in_no_open_log_store_or_error(tmp_path: Path) -> None:
    key = KeyedProvider.secrets[0]
    (tmp_path / "notes.txt").write_text(f"{key} and more")
    read = call_reply(("Read", {"file_path": "notes.txt"}))
    failure = ProviderRejected(f"the server said: {key} is wrong", provider="second")
    second = KeyedProvider([read, f"It says {key}.", failure])
    store, events = SqliteStore(tmp_path / "s.db"), list[Event]()
    log = SessionLog(tmp_path / "logs", level=LogLevel.RAW)
    bus = bus_for(events.append)

    async with Session(
        ScriptedProvider(["hi"]),
        model="m",
        tools=builtin_tools(),
        cwd=tmp_path,
        store=store,
        session_log=log,
        event_bus=bus,
    ) as session:
        await session.run("hello")
        await session.set_model("m", provider=second)
        await session.run("go")
        with pytest.raises(ProviderRejected) as caught:
            await session.run("again")
    await store.aclose()

    assert str(caught.value) == "the server said: [redacted:value] is wrong"
    assert key not in str([each for each in events if isinstance(each, RunFailed)])
    written = "".join(
        path.read_text(errors="replace") for path in tmp_path.glob("logs/**/*") if path.is_file()
    )
    assert "[redacted:value]" in written
    assert key not in written
    assert f"{key} and more" not in (tmp_path / "s.db").read_text(errors="replace")
    assert f"{key} is wrong" not in (tmp_path / "s.db").read_text(errors="replace")
