"""`/memory`: list, search, add and review the facts that a project remembers."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from anyio import to_thread
from msgspec.structs import asdict

from clew.context.recall.entry_text import entry_text
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import SessionError
from clew.core.messages import Role
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    reject_arguments,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.extensions.memory import ProjectMemory
from clew.extensions.memory.events import MemoryOutcome, MemoryReference
from clew.extensions.memory.facts import FACT_KINDS, MAX_FACT

_T = TypeVar("_T")
_Action: TypeAlias = Callable[[ProjectMemory, str], Awaitable[CommandResult]]
_SHOWN = 160
_ID = 80
_QUERY = 1_000


async def _memory(host: CommandHost, arguments: str) -> CommandResult:
    if host.memory is None:
        raise SessionError("this session has no project memory")
    word, rest = split_word(arguments or "list")
    if word.lower() == "extract":
        reject_arguments(rest, "memory extract")
        return await _extract(host, host.memory)
    action = _ACTIONS.get(word.lower())
    if action is None:
        raise unknown_subcommand("memory", word, MEMORY)
    return await action(host.memory, rest)


async def _list(memory: ProjectMemory, rest: str) -> CommandResult:
    reject_arguments(rest, "memory list")
    topics = await _in_thread(memory.topics)
    lines = [
        f"  {topic.name:<24} {topic.problem or pluralize(topic.facts, 'fact')}" for topic in topics
    ]
    return build_result(
        lines or ["the memory is empty; add a fact with /memory add TOPIC TEXT"],
        topics=[asdict(topic) for topic in topics],
    )


async def _show(memory: ProjectMemory, rest: str) -> CommandResult:
    text = await _in_thread(partial(memory.show, rest))
    return build_result([text.rstrip() or "the memory is empty"], topic=rest, text=text)


async def _add(memory: ProjectMemory, rest: str) -> CommandResult:
    kind, more = split_word(rest)
    if kind.lower() not in FACT_KINDS:
        kind, more = "project", rest
    topic, text = split_word(more)
    if not text:
        kinds = "|".join(FACT_KINDS)
        raise SessionError(f"write the fact to remember: /memory add [{kinds}] TOPIC TEXT")
    check_text(text, MAX_FACT, "a fact")
    return _outcome(await _in_thread(partial(memory.add, text, topic=topic, kind=kind.lower())))


async def _extract(host: CommandHost, memory: ProjectMemory) -> CommandResult:
    """Queue the facts that the user stated in this session, for approval."""
    text = "\n\n".join(_user_texts(host.session.journal.entries))
    source = f"session {host.session.session_id}"
    found = await _in_thread(partial(memory.capture, text, source=source))
    queued = [one for one in found if one.status == "queued"]
    known = sum(one.status == "saved" for one in found)
    skipped = sum(one.status == "skipped" for one in found)
    lines = [f"  {one.id}  {one.topic}: {one_line(one.text, _SHOWN)}" for one in queued]
    if queued:
        verb = "waits" if len(queued) == 1 else "wait"
        lines.append(
            f"{pluralize(len(queued), 'fact')} {verb} for approval: /memory approve ID"
            " or /memory reject ID"
        )
    lines += [f"{pluralize(known, 'fact')} already known"] if known else []
    lines += [f"{pluralize(skipped, 'fact')} skipped as secret or personal"] if skipped else []
    return build_result(
        lines or ["no fact to remember was found in your messages"],
        outcomes=[asdict(one) for one in found],
    )


def _user_texts(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry.body, MessageAdded) and entry.body.message.role is Role.USER:
            yield entry.body.display or entry_text(entry)


async def _show_pending(memory: ProjectMemory, rest: str) -> CommandResult:
    reject_arguments(rest, "memory pending")
    waiting = await _in_thread(memory.pending)
    lines = [f"  {one.id}  {one.topic}: {one_line(one.text, _SHOWN)}" for one in waiting]
    return build_result(
        lines or ["no fact waits for approval"], pending=[asdict(one) for one in waiting]
    )


async def _approve(memory: ProjectMemory, rest: str) -> CommandResult:
    return _outcome(await _in_thread(partial(memory.approve, _parse_id(rest, "approve"))))


async def _reject(memory: ProjectMemory, rest: str) -> CommandResult:
    return _outcome(await _in_thread(partial(memory.reject, _parse_id(rest, "reject"))))


async def _show_used(memory: ProjectMemory, rest: str) -> CommandResult:
    reject_arguments(rest, "memory used")
    used = memory.list_used()
    lines = [f"  {one.path}" for one in used]
    return build_result(lines or ["this session has not used the memory yet"], used=_facts(used))


async def _find(memory: ProjectMemory, rest: str) -> CommandResult:
    if not rest:
        raise SessionError("write text to search for, such as /memory find build system")
    found = await _in_thread(partial(memory.find, check_text(rest, _QUERY, "the text")))
    lines = [line for one in found for line in (f"{one.path}:", one.text)]
    return build_result(lines or ["no fact matches"], found=_facts(found))


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread: it may wait for another process that has locked the files."""
    return await to_thread.run_sync(work)


def _parse_id(rest: str, action: str) -> str:
    if not rest or len(rest.split()) > 1:
        raise SessionError(
            f"give the id of one fact: /memory {action} ID; /memory pending lists them"
        )
    return check_text(rest, _ID, "an id", lines=False)


def _outcome(outcome: MemoryOutcome) -> CommandResult:
    place, data = f"under {outcome.topic}", asdict(outcome)
    match outcome.status:
        case "skipped":
            return CommandResult(outcome.why or "nothing was saved", success=False, data=data)
        case "saved" if outcome.deduplicated:
            said = f"that fact is already known {place}"
        case "saved":
            said = f"saved {place}: {one_line(outcome.text, _SHOWN)}"
        case "queued":
            said = f"waiting for approval as {outcome.id}"
        case "rejected":
            said = f"rejected: {one_line(outcome.text, _SHOWN)}"
    return CommandResult(said, data=data)


def _facts(references: Iterable[MemoryReference]) -> list[dict[str, object]]:
    return [asdict(reference) for reference in references]


_ACTIONS: Mapping[str, _Action] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "add": _add,
        "pending": _show_pending,
        "approve": _approve,
        "reject": _reject,
        "used": _show_used,
        "find": _find,
    }
)


def _describe_reader(name: str, description: str, hint: str = "") -> Command:
    return Command(name=name, description=description, argument_hint=hint, model_invocable=True)


def _describe_writer(name: str, description: str, hint: str) -> Command:
    return Command(
        name=name,
        description=description,
        argument_hint=hint,
        model_invocable=True,
        safety="changes-files",
    )


MEMORY = Command(
    name="memory",
    description="list, search, add and review what this project remembers",
    argument_hint="list | show [TOPIC] | find WORDS | add [KIND] TOPIC TEXT"
    " | extract | pending | approve ID | reject ID | used",
    when_to_use="Look here when earlier decisions may help, and say which facts you used. Add"
    " only durable facts that will be useful again, or that the user asks you to remember; never"
    " secrets",
    model_invocable=True,
    safety="changes-files",
    subcommands=(
        _describe_reader("list", "list the topics"),
        _describe_reader("show", "show the index, or a whole topic", "[TOPIC]"),
        _describe_reader("find", "search the topics", "WORDS"),
        _describe_writer("add", "remember a fact", f"[{'|'.join(FACT_KINDS)}] TOPIC TEXT"),
        _describe_writer("extract", "queue facts that you stated in this session for approval", ""),
        _describe_reader("pending", "list the facts that wait for approval"),
        _describe_writer("approve", "save a waiting fact", "ID"),
        _describe_writer("reject", "discard a waiting fact", "ID"),
        _describe_reader("used", "list what this session has read from the memory"),
    ),
)
MEMORY_COMMANDS: tuple[Builtin, ...] = (Builtin(MEMORY, _memory),)
