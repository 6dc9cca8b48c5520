"""Reads what an earlier version wrote, and returns what was read as plain data.

`copied` makes a copy of the files below `fixtures`. Each function reads one kind of file in such
a copy, through the highest public API there is, and returns what JSON can hold. For version
0.1.0, what the functions returned is in `expected.json`.
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import msgspec

from clew import (
    Access,
    InteractiveSession,
    Message,
    ModelFacts,
    ProjectMemory,
    Session,
    load_task_context,
)
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider
from clew.session.calibrations import CalibrationFile
from clew.session.history import get_messages_for_api
from clew.stores.sqlite import SqliteStore
from tests.forked_clew import run_clew

VERSION = "0.1.0"
FIXTURES = Path(__file__).parent / "fixtures" / VERSION
WRITTEN_IN = "/tmp/clew-compat"
"""Where the files were when they were written; parts of them name this folder."""
NAMED, FORK, FORK_OF_FORK, EDITS = "4e07408562be", "670671cd9740", "35135aaa6cc2", "e29c9c180c62"
"""Sessions whose ids were chosen by Clew."""
SESSIONS: Mapping[str, str] = {
    NAMED: "other-model",
    FORK: "small-model",
    FORK_OF_FORK: "small-model",
    EDITS: "small-model",
    "compacted": "tight-model",
    "rewritten": "small-model",
    "shortened": "tight-model",
    "cleared": "small-model",
    "thinking": "small-model",
    "long": "small-model",
    "broken": "tight-model",
    "future": "small-model",
}
"""All sessions of the store, each with its model."""
_FACTS = {
    "tight-model": ModelFacts(name="tight-model", window=4_000, max_output=400),
    "small-model": ModelFacts(name="small-model", window=32_000, max_output=2_000),
    "other-model": ModelFacts(name="other-model", window=64_000, max_output=4_000),
}
_LONGEST = 80


@dataclass(frozen=True)
class Copy:
    """A copy of the files of an earlier version, in the folders in which Clew looks for them."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def clew_home(self) -> Path:
        return self.home / ".clew"

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def kept(self) -> Path:
        """The folder for what is kept of the project, by the rule of version 0.1.0."""
        mark = hashlib.sha256(os.fsencode(self.project)).hexdigest()[:8]
        return self.clew_home / "projects" / f"project-{mark}"

    def store(self) -> SqliteStore:
        return SqliteStore(self.kept / "sessions.db")

    def interactive(self, *replies: str, **options: Any) -> InteractiveSession:
        """Return a session in the project, with the settings that are there."""
        facts = _FACTS["small-model"]
        return InteractiveSession(
            cwd=self.project,
            provider=ScriptedProvider(replies, facts),
            **{
                "model": facts.name,
                "user_home": self.home,
                "clew_home": self.clew_home,
                "environ": {"WORK_KEY": "a-key"},
                **options,
            },
        )

    async def clew(self, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run a command that must succeed, and return what it prints."""
        done = await self.ended(*arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    async def ended(
        self, *arguments: str | Path, cwd: Path | None = None
    ) -> "CompletedProcess[bytes]":
        """Run a command to its end."""
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CLEW_HOME": str(self.clew_home),
            "WORK_KEY": "a-key",
            "OLD_KEY": "a-key",
            "TZ": "UTC",
        }
        with anyio.fail_after(60):
            return await run_clew([*map(str, arguments)], env=env, cwd=cwd or self.project)

    def plain(self, value: object) -> Any:
        """Return a value as JSON holds it, without the folder that it was read in."""
        text = msgspec.json.encode(value).decode().replace(str(self.root), "{root}")
        return json.loads(text)


def copied(folder: Path) -> Copy:
    """Copy all files into `folder`, with the modes that they had.

    The list of accepted folders and the lists of kept files name whole paths. In the copy, these
    are the paths of the copy.
    """
    copy = Copy(folder.resolve() / "copy")
    shutil.copytree(FIXTURES, copy.root)
    for path in copy.project.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (written,) = (copy.clew_home / "projects").iterdir()
    written.rename(copy.kept)
    for path in (copy.clew_home / "trust.json", *copy.kept.glob("checkpoints/*/manifest.jsonl")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(WRITTEN_IN, str(copy.root)), encoding="utf-8")
    return copy


async def listed(copy: Copy) -> Any:
    """Return the records of all sessions, without the fields that were added since."""
    records = _json_lines(await copy.clew("sessions", "--json", "--limit", "50"))
    assert {record.pop("kind") for record in records} == {""}
    return records


async def found(copy: Copy) -> Any:
    """Return what searches find: session, newest entry, number of entries."""
    return {
        words: [
            [hit["session"]["id"], hit["entry_id"], hit["matches"]]
            for hit in _json_lines(await copy.clew("sessions", "search", words, "--json"))
        ]
        for words in ("wall", "question 7", "labyrinth", "thread green")
    }


async def exported(copy: Copy, ids: Iterable[str] = SESSIONS) -> Any:
    """Return the kinds of all entries, and a hash over all their bytes, for each session."""
    return {id_: _entries(await copy.clew("sessions", "export", id_)) for id_ in ids}


async def imported(copy: Copy) -> Any:
    """Take an exported session into an empty folder, and return what that has then."""
    folder = copy.root / "elsewhere"
    folder.mkdir()
    id_ = (await copy.clew("sessions", "import", copy.root / "exported.jsonl", cwd=folder)).strip()
    return _entries(await copy.clew("sessions", "export", id_, cwd=folder))


async def opened(copy: Copy, id_: str) -> Any:
    """Open a session as `Session`, and return all that can be asked of it."""
    async with session_of(copy, id_) as (session, _):
        return copy.plain(
            {
                "view": [brief(message) for message in session.get_history()],
                "full": [
                    brief(message) for message in get_messages_for_api(session.get_full_history())
                ],
                "context": session.get_context_state(),
                "cost": session.get_cost(),
                "mode": session.get_permission_mode(),
                "pinned": sorted(session.journal.view.pinned),
                "undoable": session.journal.view.undoable,
            }
        )


async def continued(copy: Copy, id_: str) -> Any:
    """Go on with a session, and return what the model is sent and what is kept then."""
    async with session_of(copy, id_) as (session, provider):
        answer = await session.run("What next?")
        (request,) = provider.requests
        return copy.plain(
            {
                "answer": answer,
                "model": request.model,
                "messages": [len(request.messages), *map(brief, request.messages[-2:])],
                "sha256": _hash(request.messages),
                "kept": len(get_messages_for_api(session.get_full_history())),
            }
        )


async def resumed(copy: Copy, id_: str) -> Any:
    """Open a session as `InteractiveSession`, and return what clients ask it for."""
    async with copy.interactive(resume_session_id=id_) as session:
        memory = session._life.built.commands.memory
        assert memory is not None
        return copy.plain(
            {
                "id": session.get_session_id(),
                "name": session.get_name(),
                "view": [brief(message) for message in session.get_messages()],
                "history": [
                    f"{one.id} {one.category} {one.type} {_short(one.data)}"
                    for one in session.get_full_history()
                ],
                "used memory": [(one.topic, one.path) for one in memory.list_used()],
                "mode": session.session.get_permission_mode(),
            }
        )


async def checkpoints(copy: Copy, id_: str) -> Any:
    """Return the checkpoints of a session."""
    async with copy.interactive(resume_session_id=id_) as session:
        return copy.plain(await session.list_edit_checkpoints())


async def restored(copy: Copy, id_: str) -> Any:
    """Restore the oldest checkpoint of a session, then undo; return the files after each."""
    told: list[Any] = [_files(copy)]
    async with copy.interactive(resume_session_id=id_) as session:
        oldest = (await session.list_edit_checkpoints())[0]
        rewound = await session.restore_edit_checkpoint(oldest.number)
        told += [sorted(rewound.files.restored), rewound.files.skipped, _files(copy)]
        await session.session.undo()
        told.append(_files(copy))
    return copy.plain(told)


async def rewound(copy: Copy, id_: str) -> Any:
    """Go back to before the newest checkpoint with files, words and files alike."""
    async with copy.interactive(resume_session_id=id_) as session:
        newest = [one for one in await session.list_edit_checkpoints() if one.files][-1]
        done = await session.session.rewind(newest.entry)
        view = [brief(message) for message in session.get_messages()]
        return copy.plain([done.before, sorted(done.files.restored), view, _files(copy)])


def logs(copy: Copy) -> list[Path]:
    """Return the session logs: of two sessions, and of an agent of one of them."""
    return sorted((*copy.kept.glob("logs/*.jsonl"), *copy.kept.glob("transcripts/**/*.jsonl")))


async def log_checked(copy: Copy, log: Path) -> Any:
    """Validate a log, run it again, and read its events; returns the outcome of each.

    Of the words that the commands print, only the numbers are compared.
    """
    valid = await copy.ended("log", "validate", log)
    again = await copy.ended("log", "replay", log, "--strict")
    events = _json_lines(await copy.clew("log", "show", log, "--json"))
    history = await copy.clew("log", "show", log, "--history")
    return {
        "validate": [valid.returncode, *_numbers(valid.stdout.decode().rpartition(".jsonl")[2])],
        "replay": [again.returncode, *_numbers(again.stdout.decode())],
        "events": dict(sorted(Counter(event["event"] for event in events).items())),
        "sha256": _hash(events),
        "history": [line.partition(": ")[0] for line in history.splitlines() if line[:1] == "#"],
    }


async def settings(copy: Copy) -> Any:
    """Return what `clew config` says in the project; sentences are left out."""
    told = json.loads(await copy.clew("config", "show", "--json"))
    return copy.plain(_without_sentences(told))


async def settings_of_file(copy: Copy, file: Path) -> Any:
    """Return what a settings file says when it is the only one there is."""
    folder = copy.root / "empty"
    alone = Copy(folder)
    alone.project.mkdir(parents=True)
    alone.clew_home.mkdir()
    shutil.copy(file, alone.clew_home / "settings.json")
    told = json.loads(await alone.clew("config", "show", "--json"))
    return {
        "settings": told["settings"],
        "check": (await alone.ended("config", "check")).returncode,
    }


async def settings_in_force(copy: Copy) -> Any:
    """Open a new session in the project, and return what the settings make of it."""
    calls = (
        ("Bash", "execute", "command", "make test"),
        ("Bash", "execute", "command", "make check"),
        ("Bash", "execute", "command", "curl example.org"),
        ("Bash", "execute", "command", "git push origin"),
        ("Bash", "execute", "command", "ls -l"),
        ("Read", "inspect", "path", str(copy.project / ".env")),
        ("Read", "inspect", "path", str(copy.home / "shared" / "a.txt")),
        ("Write", "modify", "path", str(copy.project / "maze" / "a.txt")),
        ("WebFetch", "inspect", "address", "https://example.org/a"),
    )
    async with copy.interactive(agents=True) as session:
        inner = session.session
        policy = msgspec.to_builtins(inner.state.policy)
        return copy.plain(
            {
                "language": session.parts.language,
                "mode": inner.get_permission_mode(),
                "budget": inner.state.budget_left,
                "window": inner.get_context_state().max_tokens,
                "thresholds": policy["thresholds"],
                "turns": policy["preserve_recent_turns"],
                "results": policy["compress_tool_results"],
                "output": policy["max_tool_output_chars"],
                "env": inner.state.tool_context.env,
                "agents": "scout" in session.parts.scan.agents,
                "skills": "greet" in [command.name for command in session.list_commands()],
                "verdicts": [
                    f"{call[0]} {call[-1]}: {session.parts.gate.decide(_access(*call)).verdict}"
                    for call in calls
                ],
            }
        )


def remembered(copy: Copy) -> Any:
    """Return the project's memory, and what waits to become part of it."""
    memory = ProjectMemory(copy.project / ".clew" / "memory")
    return copy.plain(
        {
            "problems": memory.problems(),
            "index": memory.startup(),
            "topics": {topic.name: memory.show(topic.name) for topic in memory.topics()},
            "pending": memory.pending(),
            "found": [one.path for one in memory.find("where is the door")],
        }
    )


def tasks(copy: Copy) -> Any:
    """Return what the task files say."""
    return load_task_context(copy.project, current_branch="feature/door").splitlines()


async def calibrated(copy: Copy) -> Any:
    """Return the estimate for one text by each model, with and without what was learned of it."""
    file = CalibrationFile(copy.clew_home / "calibration.json")
    told: dict[str, list[int]] = {}
    for model in ("small-model", "other-model", "a-new-model"):
        told[model] = []
        for learned in (None, file):
            provider = ScriptedProvider([], ModelFacts(name=model))
            session = Session(provider, model=model, calibrations=learned, recall=False)
            async with session:
                await session.inject_message(_user("The thread is red. " * 1_000))
                told[model].append(session.get_context_state().used_tokens)
    return told


def brief(message: Message) -> str:
    """Return a message in a line: who says what, and a hash where that is not all of it."""
    return f"{message.role}: {_short(msgspec.to_builtins(message.parts))}"


def _user(text: str) -> Message:
    return msgspec.convert({"role": "user", "parts": [{"type": "text", "text": text}]}, Message)


def _access(tool: str, risk: str, kind: str, target: str) -> Access:
    fields = {"tool": tool, "risk": risk, "kind": kind, "target": target}
    return msgspec.convert(fields, Access)


@asynccontextmanager
async def session_of(
    copy: Copy, id_: str, log: SessionLog | None = None
) -> AsyncIterator[tuple[Session, ScriptedProvider]]:
    """Open a session with the model that it had, and without tools; the model answers once."""
    store = copy.store()
    facts = _FACTS[SESSIONS[id_]]
    family = "anthropic" if id_ == "thinking" else "scripted"
    provider = ScriptedProvider(["Fine."], facts, name=family)
    session = Session(
        provider,
        model=facts.name,
        store=store,
        session_id=id_,
        cwd=copy.project,
        system_message="Be brief." if id_ == "long" else "",
        recall=False,
        session_log=log,
    )
    try:
        async with session:
            yield session, provider
    finally:
        await store.aclose()


def _entries(text: str) -> Any:
    bodies = [line["body"] for line in _json_lines(text)]
    head, *rest = bodies
    return {
        "head": head["kind"],
        "kinds": dict(sorted(Counter(body["kind"] for body in rest).items())),
        "sha256": _hash(rest),
    }


def _files(copy: Copy) -> dict[str, str | None]:
    """Return what is in the files that the sessions changed; None for one that is not there."""
    names = ("notes.txt", "maze/plan.txt", "deep/down/new.txt")
    paths = {name: copy.project / name for name in names}
    return {name: path.read_text() if path.exists() else None for name, path in paths.items()}


def _without_sentences(told: dict[str, Any]) -> dict[str, Any]:
    held = [f"{Path(one['path']).name}: {one['key']}" for one in told["withheld"]]
    return {**told, "withheld": held, "problems": len(told["problems"])}


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,.]*\b", text)


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _short(value: object) -> str:
    text = json.dumps(msgspec.to_builtins(value), sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… {_hash(value)}"


def _hash(value: object) -> str:
    """Return a hash of what a value is in JSON, however its keys are ordered."""
    text = json.dumps(msgspec.to_builtins(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
