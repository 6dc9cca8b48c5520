"""Session stores with damaged pages: every command ends in a result or a typed error."""

import os
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import anyio
from anyio import to_process

from attacks.corpus import Outcome, Status, run_together, select_sample
from clew import Session
from clew.cli.main import main
from clew.core.errors import ClewError, StoreError
from clew.core.ids import SessionId
from clew.core.models import ModelFacts
from clew.providers.scripted import ScriptedProvider
from clew.stores.sqlite import SqliteStore

NAME = "damaged-stores"
TARGET = "every command ends in a result or a typed error that says what to do"
PAGE = 4096
SEEDS = 100
SESSION = SessionId("aaaa11112222")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "list": ("sessions", "list", "--all"),
    "show": ("sessions", "show", SESSION),
    "search": ("sessions", "search", "minotaur"),
    "recall": ("sessions", "recall", SESSION, "thread"),
    "export": ("sessions", "export", SESSION),
    "salvage": ("sessions", "export", "--salvage", SESSION),
    "fork": ("sessions", "fork", SESSION),
    "rename": ("sessions", "rename", SESSION, "name"),
    "permissions": ("permissions", "log", SESSION),
    "doctor": ("doctor",),
}


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Damage a store in another way each time, and run every command on it."""
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "s.db"
        await _fill(sound)

        async def attack(seed: int) -> list[Outcome]:
            return [await to_process.run_sync(_attack, sound, seed)]

        async for outcome in run_together(select_sample(range(SEEDS), sample), attack):
            yield outcome


def _attack(sound: Path, seed: int) -> Outcome:
    """Run every command on a store that is damaged in one way; in a process of its own."""
    how, data = damage(sound.read_bytes(), seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        problems = [_try_command(path, data, name) for name in COMMANDS]
        problems.append(_try_resume(path, data))
    failed = "; ".join(filter(None, problems))
    return Outcome(f"{how}, seed {seed}", Status.FAILED if failed else Status.HELD, failed)


def damage(data: bytes, seed: int) -> tuple[str, bytes]:
    """Return how a file was damaged, and its bytes."""
    chance = random.Random(seed)
    pages = len(data) // PAGE
    one, other = (slice(PAGE * page, PAGE * (page + 1)) for page in chance.sample(range(pages), 2))
    made = bytearray(data)
    match seed % 5:
        case 0:
            made[one] = bytes(PAGE)
            return "a page of zeros", bytes(made)
        case 1:
            for _ in range(chance.choice((1, 8, 64))):
                made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
            return "flipped bits", bytes(made)
        case 2:
            made[one] = chance.randbytes(PAGE)
            return "a page of noise", bytes(made)
        case 3:
            return "a file cut short", bytes(made[: chance.randrange(100, len(made))])
        case _:
            made[one] = made[other]
            return "a page twice", bytes(made)


async def _fill(path: Path) -> None:
    """Write six sessions, and the index of their words."""
    store = SqliteStore(path)
    facts = ModelFacts(name="m", window=20_000, summarises=False)
    for number in range(6):
        answers = ["a thread in the labyrinth " * (5 * turn + 1) for turn in range(12)]
        async with Session(
            ScriptedProvider(answers, facts),
            model="m",
            store=store,
            session_id=f"{SESSION[:-1]}{number}",
            cwd=path.parent,
        ) as session:
            for turn in range(len(answers)):
                await session.run(f"question {turn} about the minotaur")
    await store.search("minotaur")
    await store.aclose()


def _try_command(path: Path, data: bytes, name: str) -> str:
    _restore(path, data)
    return _catch(name, lambda: _run_command(path, COMMANDS[name]))


def _try_resume(path: Path, data: bytes) -> str:
    _restore(path, data)
    return _catch("resume", lambda: anyio.run(_resume, path))


def _catch(name: str, work: Callable[[], None]) -> str:
    """Return what is wrong with the end of some work."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - any other end than a typed error is a failure
        return f"{name}: {type(error).__name__}: {error}"
    return ""


def _restore(path: Path, data: bytes) -> None:
    for file in path.parent.glob("s.db*"):
        file.unlink()
    path.write_bytes(data)


def _run_command(path: Path, arguments: tuple[str, ...]) -> None:
    home = str(path.parent)
    before = {name: os.environ.get(name) for name in ("HOME", "CLEW_HOME", "CLEW_STORE")}
    os.environ |= {"HOME": home, "CLEW_HOME": home, "CLEW_STORE": str(path)}
    said = StringIO()
    try:
        with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")), redirect_stderr(said):
            code = main(arguments)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    if code and "is damaged" in said.getvalue() and "salvage" not in said.getvalue():
        raise AssertionError(f"no advice: {said.getvalue()}")


async def _resume(path: Path) -> None:
    store = SqliteStore(path)
    try:
        async with Session(
            ScriptedProvider(["ok"]), model="m", store=store, session_id=SESSION, cwd=path.parent
        ) as session:
            await session.run("still there?")
    except StoreError:
        pass
    except ClewError as error:
        raise AssertionError(f"{type(error).__name__} instead of an error of the store") from error
    finally:
        await store.aclose()
