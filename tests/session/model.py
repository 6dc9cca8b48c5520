"""A session against a plain model of it: random games, checked after every move.

A move does one thing to the session. It gets a number, by which it chooses, and returns the
lines (see `sketch`) of the messages that the journal must have gained.

`python -m tests.session.model 2000` plays that many games and prints what happened in them.
"""

import logging
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from clew.core.entries import Compacted, MessageAdded, Rewound, Undone
from clew.core.errors import (
    AbortError,
    ContextFull,
    NothingToDrop,
    NothingToUndo,
    ProviderBusy,
    SessionError,
    StreamBroken,
)
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import assistant, user
from clew.core.permissions import PermissionMode
from clew.providers.protocol import CallChunk, Chunk, Finished, StopReason, TextChunk
from clew.providers.scripted import Pause, ScriptedStep
from tests.session.bench import WINDOW, Bench, Seat
from tests.session.plain_model import Model, sketch

Lines = list[str]
Move = Callable[[Bench, int], Awaitable[Lines]]
LONG = "the thread is red and leads back out of here. " * 12
_REMINDER = re.compile(r"<system-reminder>\n.*?</system-reminder>\n", re.DOTALL)
WORDS = ["a", "two words", LONG, "計算機科学は楽しい", "🙂 ok", LONG * 2]


def word(number: int) -> str:
    """Choose some words."""
    return WORDS[number % len(WORDS)].strip()


def calls(number: int, names: Sequence[tuple[str, str]]) -> list[Chunk]:
    """Make the chunks of calls, with ids that other calls of the session may have had."""
    return [
        CallChunk(index=n, call_id=CallId(f"c{number % 7}.{n}"), name=name, arguments=arguments)
        for n, (name, arguments) in enumerate(names)
    ]


async def answer(bench: Bench, number: int) -> Lines:
    bench.seat.provider.replies.append(word(number))
    await bench.seat.live.run(f"question {number}")
    return [f"user: question {number}", f"assistant: {word(number)}"]


async def say_nothing(bench: Bench, number: int) -> Lines:
    bench.seat.provider.replies.append([Finished(reason=StopReason.DONE)])
    await bench.seat.live.run(f"silence {number}")
    return [f"user: silence {number}", "assistant: "]


async def use_tools(bench: Bench, number: int) -> Lines:
    """Let the model call tools that work, fail, are denied, are not there, or say too much."""
    size = [3, 40, 900][number % 3]
    made = [
        ("read", f'{{"size":{size}}}'),
        ("crash", "{}"),
        ("launch", '{"what":"rocket"}'),
        ("nonsense", "{}"),
        ("read", "not json"),
    ][: 1 + number % 5]
    steps: list[ScriptedStep] = [*calls(number, made), Finished(reason=StopReason.TOOL_CALLS)]
    bench.seat.provider.replies += [steps, "done"]
    await bench.seat.live.run(f"task {number}")
    asked = " ".join(f"{name}({arguments})" for name, arguments in made)
    first = f"tool: read -> {'line of a file' + chr(10)}" + "line of a file\n" * (size - 1)
    rest = [f"tool: {name} failed" for name, _ in made[1:]]
    return [f"user: task {number}", f"assistant: {asked}", first, *rest, "assistant: done"]


async def work_long(bench: Bench, number: int) -> Lines:
    """Let the model call tools until the window is full of what they say."""
    sizes = [100 + 10 * n + number % 50 for n in range(5)]
    lines = [f"user: work {number}"]
    for size in sizes:
        steps = [*calls(number, [("read", f'{{"size":{size}}}')])]
        bench.seat.provider.replies.append([*steps, Finished(reason=StopReason.TOOL_CALLS)])
        lines += [f'assistant: read({{"size":{size}}})', "tool: read -> line of a file"]
    bench.seat.provider.replies.append("done at last")
    await bench.seat.live.run(f"work {number}")
    return [*lines, "assistant: done at last"]


async def fail(bench: Bench, number: int) -> Lines:
    """Let the provider fail: at once, after some words, or after a call."""
    busy = ProviderBusy("later", provider="scripted")
    replies: list[list[ScriptedStep]] = [
        [busy],
        [TextChunk(word(number)), busy],
        [*calls(number, [("read", '{"size":1}')]), TextChunk("so")],
    ]
    bench.seat.provider.replies.append(replies[number % 3])
    with pytest.raises((ProviderBusy, StreamBroken)):
        await bench.seat.live.run(f"wish {number}")
    arrived: list[Lines] = [
        [],
        [f"assistant!: {word(number)}"],
        ['assistant!: so read({"size":1})', "tool: read failed"],
    ]
    return [f"user: wish {number}", *arrived[number % 3]]


async def abort(bench: Bench, number: int) -> Lines:
    """Break off an answer, or a tool."""
    pause = Pause()
    if number % 2:
        bench.seat.provider.replies.append([TextChunk(word(number)), pause])
        arrived = [f"assistant!: {word(number)}"]
    else:
        steps: list[ScriptedStep] = [*calls(number, [("wait", "{}"), ("read", '{"size":1}')])]
        bench.seat.provider.replies.append([*steps, Finished(reason=StopReason.TOOL_CALLS)])
        first, second = "wait({})", 'read({"size":1})'
        arrived = [f"assistant: {first} {second}", "tool: wait failed", "tool: read"]
    session = bench.seat.live
    before = len(bench.seat.told)
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            if number % 2:
                await pause.reached.wait()
            else:
                while not any(_asks(entry.body) for entry in bench.seat.told[before:]):
                    await anyio.lowlevel.checkpoint()
            session.abort()

        tasks.start_soon(stop)
        with pytest.raises(AbortError):
            await session.run(f"story {number}")
    return [f"user: story {number}", *arrived]


def _asks(body: object) -> bool:
    return isinstance(body, MessageAdded) and bool(body.message.calls)


async def say_too_much(bench: Bench, number: int) -> Lines:
    """Send a prompt that no window holds: the conversation must be as it was."""
    shown = bench.seat.model.shown()
    prompt = f"flood {number} " * WINDOW
    with pytest.raises(ContextFull):
        await bench.seat.live.run(prompt)
    bench.seat.catch_up()
    assert bench.seat.model.shown() == shown
    return [f"user: {prompt}"]


async def compact(bench: Bench, number: int) -> Lines:
    with suppress(NothingToDrop):
        await bench.seat.live.compact()
        bench.seen["compacted by hand"] += 1
    return []


async def undo(bench: Bench, number: int) -> Lines:
    newest = bench.seat.model.undoable[-1:]
    if not newest:
        with pytest.raises(NothingToUndo):
            await bench.seat.live.undo()
        return []
    entry = await bench.seat.live.undo()
    assert [entry.id] == newest
    assert bench.seat.told[-1].body == Undone(target=entry.id)
    return []


async def clear(bench: Bench, number: int) -> Lines:
    await bench.seat.live.clear_history()
    return []


async def rewind(bench: Bench, number: int) -> Lines:
    seat = bench.seat
    wanted = 1 + number % (len(seat.told) + 1)
    if wanted > len(seat.live.journal.entries):
        with pytest.raises(SessionError, match="no entry"):
            await seat.live.rewind(wanted, code=False)
    elif seat.told:
        done = await seat.live.rewind(wanted, code=False)
        assert done.before == seat.model.whole_before(wanted)
        assert seat.told[-1].body == Rewound(before=EntryId(done.before))
    return []


async def pin(bench: Bench, number: int) -> Lines:
    """Pin a message, or let it go; what is no message, or is not shown, cannot be pinned."""
    seat = bench.seat
    pinned = bool(number & 1)
    known = [shown for shown, _ in seat.model.shown()] if pinned else sorted(seat.model.pinned)
    if known and number % 8 < 6:
        wanted = known[(number >> 3) % len(known)]
    else:
        wanted = 1 + (number >> 3) % (len(seat.told) + 1)
    found = [entry for entry in seat.told if entry.id == wanted]
    is_message = bool(found) and isinstance(found[0].body, MessageAdded)
    is_shown = wanted in {shown for shown, _ in seat.model.shown()}
    if is_message and (is_shown or not pinned):
        await seat.live.pin(wanted, pinned=pinned)
    else:
        with pytest.raises(SessionError):
            await seat.live.pin(wanted, pinned=pinned)
    return []


async def inject(bench: Bench, number: int) -> Lines:
    """Add a message; an answer needs a question before it, which no undo may take away again."""
    model = bench.seat.model
    message = user(word(number)) if number % 2 else assistant(word(number))
    if not number % 2 and any(isinstance(entry.body, Rewound) for entry in model.counts):
        return []
    if number % 2 or model.shown():
        await bench.seat.live.inject_message(message)
        return [sketch(message)]
    with pytest.raises(SessionError, match="must begin with a user message"):
        await bench.seat.live.inject_message(message)
    return []


async def by_hand(bench: Bench, number: int) -> Lines:
    made = [("read", '{"size":2}'), ("crash", "{}"), ("nonsense", "{}")][number % 3]
    await bench.seat.live.run_tool(*made, said=f"I do {number}")
    result = (
        "read -> line of a file\nline of a file\n" if made[0] == "read" else f"{made[0]} failed"
    )
    return [f"user: I do {number}", f"assistant: {made[0]}({made[1]})", f"tool: {result}"]


async def switch(bench: Bench, number: int) -> Lines:
    await bench.seat.live.set_model(
        ["m", "n"][number % 2], max_context_tokens=WINDOW + number % 500
    )
    return []


async def note(bench: Bench, number: int) -> Lines:
    await bench.seat.live.add_history_entry("note", word(number), count=number)
    return []


async def mode(bench: Bench, number: int) -> Lines:
    modes = [PermissionMode.PLAN, PermissionMode.ACCEPT_EDITS, PermissionMode.DEFAULT]
    await bench.seat.live.set_permission_mode(modes[number % 3])
    return []


async def resume(bench: Bench, number: int) -> Lines:
    """Open the session again: after its end, or as after a crash, when nobody said goodbye."""
    seat = bench.seat
    if number % 2 or bench.logged:
        await seat.live.shutdown()
    if bench.disk:
        await bench.store.aclose()
        bench.open_store()
    assert await bench.stored(seat.session_id) == seat.told
    await bench.open(seat, ["m", seat.model.name or "m"][number % 2])
    return []


async def fork(bench: Bench, number: int) -> Lines:
    """Fork the session at some entry; go on with the fork, or only look at it."""
    old = bench.seat
    last = 1 + (number >> 1) % max(1, len(old.told))
    if not old.told:
        return []
    before = await bench.store.load(SessionId(old.session_id))
    made = await bench.store.fork(SessionId(old.session_id), upto=EntryId(last))
    if number & 1:
        await old.live.shutdown()
        before = await bench.store.load(SessionId(old.session_id))
    seat = Seat(made.id, bench.make_model, old.ahead, told=old.told[:last])
    seat.catch_up()
    lost = [f"tool: {name} failed" for name in seat.model.unanswered()]
    bench.seat = seat
    await bench.open(seat)
    assert _lines(seat, last) == lost, (_lines(seat, last), lost, made)
    bench.seen["forks inside a batch"] += bool(lost)
    await bench.check()
    if not number & 1:
        assert _lines(seat, last) == [*lost, *await answer(bench, number)][: len(lost)]
        await bench.check()
        await seat.live.shutdown()
        bench.seat = old
    after = await bench.store.load(SessionId(old.session_id))
    assert (after[0], list(after[1])) == (before[0], list(before[1]))
    return []


MOVES: tuple[Move, ...] = (
    *(answer, answer, say_nothing, use_tools, use_tools, work_long, fail, abort),
    *(say_too_much, compact, compact),
    *(undo, undo, clear, rewind, rewind, pin, pin, inject, by_hand, switch, note, mode),
    *(resume, resume, fork),
)


@dataclass(frozen=True)
class Game:
    """Which moves to play, and where."""

    moves: tuple[tuple[Move, int], ...]
    disk: bool = False
    logged: bool = False
    long: bool = False
    ahead: bool = False

    @classmethod
    def drawn(cls, chance: random.Random, *, length: int) -> "Game":
        """Draw one by lot."""
        moves = [(chance.choice(MOVES), chance.randrange(10_000)) for _ in range(length)]
        disk, logged, long, ahead = (chance.random() < 0.5 for _ in range(4))
        return cls(tuple(moves), disk=disk, logged=logged, long=long, ahead=ahead)


def _lines(seat: Seat, since: int) -> Lines:
    bodies = [entry.body for entry in seat.told[since:]]
    # A prompt in plan mode begins with a reminder.
    return [
        _REMINDER.sub("", sketch(body.message, body.full_text))
        for body in bodies
        if isinstance(body, MessageAdded)
    ]


async def play(game: Game, folder: Path, model: type[Model] = Model) -> Counter[str]:
    """Play a game, and check everything after each move; returns what was seen."""
    bench = Bench(folder, disk=game.disk, logged=game.logged, ahead=game.ahead, model=model)
    await bench.begin(long=game.long)
    try:
        await bench.check()
        for move, number in game.moves:
            seat, since = bench.seat, len(bench.seat.told)
            expected = await move(bench, number)
            if bench.seat is seat:
                came = _lines(seat, since)
                assert all(c.startswith(e) for c, e in zip(came, expected, strict=True)), came
            bench.seen[move.__name__] += 1
            await bench.check()
        bench.seen["requests"] += bench.seat.requests
        kinds = Counter(type(entry.body).__name__ for entry in bench.seat.told)
        kinds["swapped"] = sum(
            isinstance(entry.body, Compacted) and "background" in entry.body.report.why
            for entry in bench.seat.told
        )
        bench.seen.update(kinds)
    finally:
        with anyio.CancelScope(shield=True):
            await bench.close()
    return bench.seen


def main(games: str) -> None:
    """Play random games and print what they held."""
    logging.disable()
    seen: Counter[str] = Counter()
    for seed in range(int(games)):
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                seen += anyio.run(play, Game.drawn(chance, length=25), Path(folder))
            except BaseException:
                sys.stderr.write(f"game {seed} failed\n")
                raise
    sys.stdout.write(f"{games} games: {dict(sorted(seen.items()))}\n")


if __name__ == "__main__":
    main(sys.argv[1])
