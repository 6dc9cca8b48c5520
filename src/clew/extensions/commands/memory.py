"""`/memory`: what is remembered of the project, for people and, when they ask, for the model."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from anyio import to_thread
from msgspec.structs import asdict

from clew.core.errors import SessionError
from clew.core.text import one_line, pluralize
from clew.extensions.commands.parsing import (
    Builtin,
    build_result,
    fit,
    no_such,
    nothing_more,
    split,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.extensions.memory import ProjectMemory
from clew.extensions.memory.events import Outcome, Reference
from clew.extensions.memory.facts import KINDS, MAX_FACT

_T = TypeVar("_T")
_Action: TypeAlias = Callable[[ProjectMemory, str], Awaitable[CommandResult]]
_SHOWN = 160
_ID = 80
_QUERY = 1_000


async def _memory(host: CommandHost, arguments: str) -> CommandResult:
    if host.memory is None:
        raise SessionError("this session has no project memory")
    word, rest = split(arguments or "list")
    action = _ACTIONS.get(word.lower())
    if action is None:
        raise no_such("memory", word, MEMORY)
    return await action(host.memory, rest)


async def _list(memory: ProjectMemory, rest: str) -> CommandResult:
    nothing_more(rest, "memory list")
    topics = await _in_thread(memory.topics)
    lines = [
        f"  {topic.name:<24} {topic.problem or pluralize(topic.facts, 'fact')}" for topic in topics
    ]
    return build_result(
        lines or ["nothing is remembered yet; /memory add TOPIC TEXT begins"],
        topics=[asdict(topic) for topic in topics],
    )


async def _show(memory: ProjectMemory, rest: str) -> CommandResult:
    text = await _in_thread(partial(memory.show, rest))
    return build_result([text.rstrip() or "nothing is remembered yet"], topic=rest, text=text)


async def _add(memory: ProjectMemory, rest: str) -> CommandResult:
    kind, more = split(rest)
    if kind.lower() not in KINDS:
        kind, more = "project", rest
    topic, text = split(more)
    if not text:
        kinds = "|".join(KINDS)
        raise SessionError(f"write what to remember: /memory add [{kinds}] TOPIC TEXT")
    fit(text, MAX_FACT, "a fact")
    return _outcome(await _in_thread(partial(memory.add, text, topic=topic, kind=kind.lower())))


async def _pending(memory: ProjectMemory, rest: str) -> CommandResult:
    nothing_more(rest, "memory pending")
    waiting = await _in_thread(memory.pending)
    lines = [f"  {one.id}  {one.topic}: {one_line(one.text, _SHOWN)}" for one in waiting]
    return build_result(
        lines or ["nothing waits for approval"], pending=[asdict(one) for one in waiting]
    )


async def _approve(memory: ProjectMemory, rest: str) -> CommandResult:
    return _outcome(await _in_thread(partial(memory.approve, _waiting(rest, "approve"))))


async def _reject(memory: ProjectMemory, rest: str) -> CommandResult:
    return _outcome(await _in_thread(partial(memory.reject, _waiting(rest, "reject"))))


async def _used(memory: ProjectMemory, rest: str) -> CommandResult:
    nothing_more(rest, "memory used")
    used = memory.used()
    lines = [f"  {one.path}" for one in used]
    return build_result(lines or ["no memory was used in this session yet"], used=_facts(used))


async def _find(memory: ProjectMemory, rest: str) -> CommandResult:
    if not rest:
        raise SessionError("write words to find, such as /memory find build system")
    found = await _in_thread(partial(memory.find, fit(rest, _QUERY, "a question")))
    lines = [line for one in found for line in (f"{one.path}:", one.text)]
    return build_result(lines or ["nothing that is remembered fits"], found=_facts(found))


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Do what may have to wait for another process that holds the files."""
    return await to_thread.run_sync(work)


def _waiting(rest: str, action: str) -> str:
    if not rest or len(rest.split()) > 1:
        raise SessionError(f"name one fact by its id: /memory {action} ID; /memory pending lists")
    return fit(rest, _ID, "an id", lines=False)


def _outcome(outcome: Outcome) -> CommandResult:
    place, data = f"under {outcome.topic}", asdict(outcome)
    match outcome.status:
        case "skipped":
            return CommandResult(outcome.why or "nothing was kept", success=False, data=data)
        case "saved" if outcome.deduplicated:
            said = f"that is remembered {place} already"
        case "saved":
            said = f"remembered {place}: {one_line(outcome.text, _SHOWN)}"
        case "queued":
            said = f"it waits for approval as {outcome.id}"
        case "rejected":
            said = f"rejected: {one_line(outcome.text, _SHOWN)}"
    return CommandResult(said, data=data)


def _facts(references: Iterable[Reference]) -> list[dict[str, object]]:
    return [asdict(reference) for reference in references]


_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "add": _add,
        "pending": _pending,
        "approve": _approve,
        "reject": _reject,
        "used": _used,
        "find": _find,
    }
)


def _reads(name: str, description: str, hint: str = "") -> Command:
    return Command(name=name, description=description, argument_hint=hint, model_invocable=True)


def _writes(name: str, description: str, hint: str) -> Command:
    return Command(
        name=name,
        description=description,
        argument_hint=hint,
        model_invocable=True,
        safety="changes-files",
    )


MEMORY = Command(
    name="memory",
    description="list, show, add, review and find what is remembered of this project",
    argument_hint="list | show [TOPIC] | find WORDS | add [KIND] TOPIC TEXT | pending"
    " | approve ID | reject ID | used",
    when_to_use="Look here when earlier decisions may help, and name what you used. Add only"
    " durable facts that will be of use again, or that the user asks you to remember; never"
    " secrets",
    model_invocable=True,
    safety="changes-files",
    subcommands=(
        _reads("list", "list the topics"),
        _reads("show", "show the index, or a topic whole", "[TOPIC]"),
        _reads("find", "show what the topics say about some words", "WORDS"),
        _writes("add", "remember a fact", f"[{'|'.join(KINDS)}] TOPIC TEXT"),
        _reads("pending", "list the facts that wait for approval"),
        _writes("approve", "save a fact that waits", "ID"),
        _writes("reject", "take a fact off the list of those that wait", "ID"),
        _reads("used", "list what was shown or found in this session"),
    ),
)
MEMORY_COMMANDS: tuple[Builtin, ...] = (Builtin(MEMORY, _memory),)
