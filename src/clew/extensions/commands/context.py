"""Commands for the context window: compaction, usage, cost, pins, search and history."""

from msgspec import to_builtins

from clew.context.estimate import text_units, tool_units
from clew.context.recall import RECALL
from clew.context.recall.entry_text import entry_text
from clew.core.context_state import ContextState
from clew.core.entries import Cleared, Compacted, Entry, MessageAdded, ResultsCleared, Rewound
from clew.core.errors import SessionError
from clew.core.text import one_line, pluralize
from clew.core.usage import Spending
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    format_ranges,
    parse_entry_id,
    parse_number,
    reject_arguments,
    split_flags,
    split_word,
)
from clew.extensions.commands.context_chart import draw_chart, list_categories, list_thresholds
from clew.extensions.commands.entries import describe_entry, format_loss, list_entries, loss_data
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.session.recall import RecallRequest
from clew.tools.mcp.names import is_mcp_tool

_UNDONE = {
    Compacted: "compaction",
    ResultsCleared: "removal of tool results",
    Cleared: "clear",
    Rewound: "rewind",
}
_INSTRUCTIONS = 4_000
_PREVIEW_LINES = 8
_PREVIEW_LINE = 100
_HISTORY = 20
_FOUND_CHARS = 160
_RECALL_PAGE = 100_000


async def _compact(host: CommandHost, arguments: str) -> CommandResult:
    match arguments.removeprefix("--"):
        case "preview":
            return _preview(host)
        case "undo":
            return await _undo_compaction(host)
    flags, text = split_flags(arguments)
    if flags - {"force"} or text in ("preview", "undo"):
        raise SessionError("write /compact preview or /compact undo without anything else")
    force = "force" in flags
    done = await request_compaction(host, text, force=force)
    if done is None:
        return build_result(
            ["a run is active: the compaction follows before the next model call"],
            deferred=True,
            force=force,
            instructions=text,
        )
    report = done.report
    said = (
        f"compacted {report.tokens_before:,} to {report.tokens_after:,} tokens:"
        f" {pluralize(len(report.summarised), 'entry', 'entries')} summarised,"
        f" {len(report.kept):,} kept word for word; /undo restores everything"
    )
    return build_result([said], deferred=False, **loss_data(done))


async def request_compaction(
    host: CommandHost, instructions: str, *, force: bool
) -> Compacted | None:
    """Compact now; during a run, before its next model call, and return None.

    Raises:
        SessionError: The instructions are too long.
        NothingToDrop: There is nothing to remove, or too little would be gained.
    """
    asked = check_text(instructions, _INSTRUCTIONS, "the instructions for the summary")
    if await host.compact_later(asked, force=force):
        return None
    return await host.session.compact(asked, force=force)


def _preview(host: CommandHost) -> CommandResult:
    would = host.session.preview_compaction()
    head = "a compaction would do this; nothing has changed:"
    rows = [line for line in would.summary.splitlines() if line.strip()]
    shown = [f"  {one_line(line, _PREVIEW_LINE)}" for line in rows[:_PREVIEW_LINES]]
    more = len(rows) - len(shown)
    if more > 0:
        shown.append(f"  … {pluralize(more, 'more line')}")
    lines = [head, *format_loss(would.report), "the summary would begin:", *shown]
    return build_result(lines, preview=True, **loss_data(would))


async def _undo_compaction(host: CommandHost) -> CommandResult:
    view, journal = host.session.journal.view, host.session.journal
    newest = journal.entry(view.undoable[-1]) if view.undoable else None
    if newest is not None and not isinstance(newest.body, Compacted):
        what = _UNDONE.get(type(newest.body), "change")
        raise SessionError(f"the latest change is the {what} #{newest.id}: /undo reverts it")
    return await _undo(host, "")


async def _undo(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "undo")
    undone = await host.session.undo()
    what = _UNDONE.get(type(undone.body), "change")
    return build_result([f"reverted the {what} #{undone.id}"], undone=undone.id, what=what)


async def _context(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "context")
    state, model = host.session.get_context_state(), host.session.journal.view.setup.model.name
    mcp, plugins = _count_mcp_tokens(host, state), _count_plugin_tokens(host, state)
    parts = [
        {"name": name, "tokens": tokens, "percent": round(tokens / state.max_tokens * 100, 2)}
        for name, tokens in list_categories(state, mcp=mcp, plugins=plugins).items()
    ]
    return build_result(
        draw_chart(state, host.thresholds, model=one_line(model, 60), mcp=mcp, plugins=plugins),
        model=model,
        used_tokens=state.used_tokens,
        max_tokens=state.max_tokens,
        used_percentage=state.used_percentage,
        free_tokens=max(0, state.max_tokens - state.used_tokens),
        status=str(state.status),
        basis=str(state.basis),
        categories=parts,
        thresholds=list_thresholds(host.thresholds, state.max_tokens),
    )


def _count_mcp_tokens(host: CommandHost, state: ContextState) -> int:
    """Return the tokens that the declarations of MCP tools take."""
    tools = host.session.journal.view.setup.tools
    own = [spec for spec in tools if is_mcp_tool(spec.name)]
    return state.breakdown.tools * tool_units(own) // max(1, tool_units(tools)) if own else 0


def _count_plugin_tokens(host: CommandHost, state: ContextState) -> int:
    """Return the tokens that plugins take in the system prompt: their skills and agents."""
    if not host.plugin_units:
        return 0
    whole = text_units(host.session.journal.view.setup.system)
    return min(state.breakdown.system, state.breakdown.system * host.plugin_units // max(1, whole))


async def _cost(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "cost")
    session, spent = host.session, host.session.get_cost()
    count = sum(isinstance(entry.body, MessageAdded) for entry in session.journal.entries)
    named = f" ({one_line(host.name, 60)})" if host.name else ""
    usage = spent.usage
    return build_result(
        [
            f"session   {session.session_id}{named}",
            f"messages  {count:,}",
            f"cost      {_money(spent)}",
            f"calls     {spent.calls:,}",
            f"tokens    {usage.input_tokens:,} in ({usage.cache_read_tokens:,} cache read,"
            f" {usage.cache_write_tokens:,} cache write), {usage.output_tokens:,} out",
        ],
        session_id=session.session_id,
        name=host.name,
        messages=count,
        usd=spent.usd,
        calls=spent.calls,
        unpriced_calls=spent.unpriced,
        tokens=to_builtins(usage),
    )


def _money(spent: Spending) -> str:
    money = f"${spent.usd:.4f}"
    if not spent.unpriced:
        return money
    known = f"{money} and " if spent.unpriced < spent.calls else ""
    return f"{known}{spent.unpriced} of {spent.calls} calls without a known price"


async def _pin(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        pinned = sorted(host.session.journal.view.pinned)
        return build_result(
            [f"pinned: {format_ranges(pinned) or 'nothing; pin an entry with /pin #12'}"],
            pinned=pinned,
        )
    entry = parse_entry_id(arguments)
    if entry in host.session.journal.view.pinned:
        return build_result([f"#{entry} is already pinned"], entry=entry)
    await host.session.pin(entry)
    return build_result([f"pinned #{entry}: every compaction keeps it word for word"], entry=entry)


async def _unpin(host: CommandHost, arguments: str) -> CommandResult:
    entry = parse_entry_id(arguments)
    await host.session.pin(entry, pinned=False)
    return build_result([f"unpinned #{entry}"], entry=entry)


async def _recall(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        raise SessionError(
            "write text to search for, such as /recall marigold, or entries: /recall #12 or"
            " /recall 382-390"
        )
    if arguments.removeprefix("#").isdecimal():
        number = parse_entry_id(arguments)
        entry = host.session.journal.entry(number)
        if entry is None:
            raise SessionError(f"there is no entry #{number}; /history lists the latest entries")
        text = entry_text(entry)
        shown = text or describe_entry(entry)
        if _has_calls(entry):
            # With the results of the calls, and with edits as diffs.
            request = RecallRequest(text=f"#{number}", page=_RECALL_PAGE)
            shown = (await host.session.recall(request)).text
        return build_result([shown], entries=[{"id": entry.id, "text": text}])
    word, rest = split_word(arguments)
    is_wide = word == "--all" and bool(rest)
    request = RecallRequest(
        text=rest if is_wide else arguments, all_sessions=is_wide, page=_RECALL_PAGE
    )
    answer = await host.session.recall(request)
    return build_result(
        [answer.text],
        entries=[
            {
                "id": hit.unit.entry_id,
                "text": one_line(hit.snippets[0].text if hit.snippets else "", _FOUND_CHARS),
                "session": hit.session_id,
            }
            for hit in answer.found.hits
        ],
    )


def _has_calls(entry: Entry) -> bool:
    return isinstance(entry.body, MessageAdded) and any(
        call.name != RECALL for call in entry.body.message.calls
    )


async def _history(host: CommandHost, arguments: str) -> CommandResult:
    most = parse_number(arguments or str(_HISTORY))
    if not most:
        raise SessionError("give the number of entries to list, such as /history 50")
    listed = [
        {"id": number, "who": whose, "words": said}
        for number, whose, said in list_entries(host.session.journal.entries, most)
    ]
    lines = [f"#{one['id']} {one['who']}: {one['words']}" for one in listed]
    return build_result(lines or ["the session has no entries yet"], entries=listed)


WINDOW_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="compact",
            description="summarise older messages to free context, or preview that",
            argument_hint="[--force] [what the summary should keep | preview | undo]",
            flags=("force",),
            when_to_use="Use it when a task is done and the next one needs little of it. It runs"
            " when the current run ends",
            model_invocable=True,
            safety="changes-session",
            subcommands=(
                Command(
                    name="preview",
                    description="show what a compaction would keep and summarise",
                    model_invocable=True,
                ),
                Command(
                    name="undo",
                    description="revert the latest compaction",
                    safety="changes-session",
                ),
            ),
        ),
        _compact,
    ),
    Builtin(
        Command(
            name="context",
            description="show what fills the context window",
            when_to_use="Use it to see how much room is left before a large task",
            model_invocable=True,
        ),
        _context,
    ),
    Builtin(Command(name="cost", description="show tokens and cost of the session"), _cost),
    Builtin(
        Command(
            name="undo",
            description="revert the latest compaction, removal of tool results, clear or rewind",
            safety="changes-session",
        ),
        _undo,
    ),
    Builtin(
        Command(
            name="pin",
            description="keep a message in every compaction, or list pinned messages",
            argument_hint="[#entry]",
            safety="changes-session",
        ),
        _pin,
    ),
    Builtin(
        Command(
            name="unpin",
            description="unpin a message",
            argument_hint="#entry",
            safety="changes-session",
        ),
        _unpin,
    ),
    Builtin(
        Command(
            name="recall",
            description="search the session, or show entries in full",
            argument_hint="[--all] text | #entry | first-last | latest:file",
            flags=("all",),
        ),
        _recall,
    ),
    Builtin(
        Command(
            name="history",
            description="list the latest entries with their numbers",
            argument_hint="[number]",
        ),
        _history,
    ),
)
