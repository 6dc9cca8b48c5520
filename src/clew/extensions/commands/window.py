"""Commands about the window: what fills it, what it costs, what is kept and found again."""

from msgspec.structs import asdict

from clew.context.recall import entry_text
from clew.core.entries import Cleared, Compacted, MessageAdded, Rewound
from clew.core.errors import SessionError
from clew.core.text import one_line, pluralize
from clew.core.usage import Spending
from clew.extensions.commands.context_chart import categories, marks, picture
from clew.extensions.commands.entries import listing, loss_facts, loss_lines, words
from clew.extensions.commands.parsing import (
    Builtin,
    build_result,
    entry_number,
    fit,
    nothing_more,
    numbers,
    split,
    whole_number,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult

_UNDONE = {Compacted: "compaction", Cleared: "clear", Rewound: "rewind"}
_INSTRUCTIONS = 4_000
_HISTORY = 20
_FOUND_CHARS = 160


async def _compact(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split(arguments)
    if word.removeprefix("--") == "preview" and not rest:
        return _preview(host)
    if word.removeprefix("--") == "undo" and not rest:
        return await _undo_compaction(host)
    instructions = fit(arguments, _INSTRUCTIONS, "what the summary should keep")
    if await host.compact_later(instructions):
        return build_result(
            ["a run is under way: the compaction will follow at its end"],
            deferred=True,
            instructions=instructions,
        )
    done = await host.session.compact(instructions)
    report = done.report
    said = (
        f"compacted, {report.tokens_before:,} → {report.tokens_after:,} tokens:"
        f" {pluralize(len(report.summarised), 'entry', 'entries')} summarised,"
        f" {len(report.kept):,} kept word for word; nothing is lost, /undo brings it back"
    )
    return build_result([said], deferred=False, **loss_facts(done))


def _preview(host: CommandHost) -> CommandResult:
    would = host.session.preview_compaction()
    head = "a compaction now would do this; nothing is changed:"
    lines = [head, *loss_lines(would.report), "", would.summary]
    return build_result(lines, preview=True, **loss_facts(would))


async def _undo_compaction(host: CommandHost) -> CommandResult:
    view, journal = host.session.journal.view, host.session.journal
    newest = journal.entry(view.undoable[-1]) if view.undoable else None
    if newest is not None and not isinstance(newest.body, Compacted):
        what = _UNDONE.get(type(newest.body), "change")
        raise SessionError(f"the newest change is the {what} #{newest.id}: /undo takes it back")
    return await _undo(host, "")


async def _undo(host: CommandHost, arguments: str) -> CommandResult:
    nothing_more(arguments, "undo")
    undone = await host.session.undo()
    what = _UNDONE.get(type(undone.body), "change")
    return build_result([f"the {what} #{undone.id} is taken back"], undone=undone.id, what=what)


async def _context(host: CommandHost, arguments: str) -> CommandResult:
    nothing_more(arguments, "context")
    state, model = host.session.get_context_state(), host.session.journal.view.setup.model.name
    parts = [
        {"name": name, "tokens": tokens, "percent": round(tokens / state.max_tokens * 100, 2)}
        for name, tokens in categories(state).items()
    ]
    return build_result(
        picture(state, host.thresholds, model=one_line(model, 60)),
        model=model,
        used_tokens=state.used_tokens,
        max_tokens=state.max_tokens,
        used_percentage=state.used_percentage,
        free_tokens=max(0, state.max_tokens - state.used_tokens),
        status=str(state.status),
        basis=str(state.basis),
        categories=parts,
        thresholds=marks(host.thresholds, state.max_tokens),
    )


async def _cost(host: CommandHost, arguments: str) -> CommandResult:
    nothing_more(arguments, "cost")
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
            f"tokens    {usage.input_tokens:,} in ({usage.cache_read_tokens:,} from the cache,"
            f" {usage.cache_write_tokens:,} into it), {usage.output_tokens:,} out",
        ],
        session_id=session.session_id,
        name=host.name,
        messages=count,
        usd=spent.usd,
        calls=spent.calls,
        unpriced_calls=spent.unpriced,
        tokens=asdict(usage),
    )


def _money(spent: Spending) -> str:
    money = f"${spent.usd:.4f}"
    if not spent.unpriced:
        return money
    known = f"{money} and " if spent.unpriced < spent.calls else ""
    return f"{known}{spent.unpriced} of {spent.calls} calls at unknown prices"


async def _pin(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        pinned = sorted(host.session.journal.view.pinned)
        return build_result(
            [f"pinned: {numbers(pinned) or 'nothing; write /pin #12'}"], pinned=pinned
        )
    entry = entry_number(arguments)
    if entry in host.session.journal.view.pinned:
        return build_result([f"#{entry} is pinned already"], entry=entry)
    await host.session.pin(entry)
    return build_result([f"#{entry} will survive every compaction word for word"], entry=entry)


async def _unpin(host: CommandHost, arguments: str) -> CommandResult:
    entry = entry_number(arguments)
    await host.session.pin(entry, pinned=False)
    return build_result([f"#{entry} is no longer pinned"], entry=entry)


async def _recall(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        raise SessionError("write words to find, such as /recall marigold, or a number: #12")
    if arguments.removeprefix("#").isdecimal():
        number = entry_number(arguments)
        entry = host.session.journal.entry(number)
        if entry is None:
            raise SessionError(f"there is no entry #{number}; /history lists the newest ones")
        text = entry_text(entry)
        return build_result([text or words(entry)], entries=[{"id": entry.id, "text": text}])
    found = host.session.search(arguments)
    lines = [f"#{one.id}  {one_line(entry_text(one), _FOUND_CHARS)}" for one in found]
    return build_result(
        lines or [f"nothing in this session contains {one_line(arguments, 80)!r}"],
        entries=[{"id": one.id, "text": one_line(entry_text(one), _FOUND_CHARS)} for one in found],
    )


async def _history(host: CommandHost, arguments: str) -> CommandResult:
    most = whole_number(arguments or str(_HISTORY))
    if not most:
        raise SessionError("say how many entries to list, such as /history 50")
    listed = [
        {"id": number, "who": whose, "words": said}
        for number, whose, said in listing(host.session.journal.entries, most)
    ]
    lines = [f"#{one['id']} {one['who']}: {one['words']}" for one in listed]
    return build_result(lines or ["nothing was said yet"], entries=listed)


WINDOW_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="compact",
            description="make the view smaller now, or see what that would do",
            argument_hint="[what the summary should keep | preview | undo]",
            when_to_use="Use it when a task is done and what follows needs little of it. It is"
            " carried out at the end of the run",
            model_invocable=True,
            safety="changes-session",
            subcommands=(
                Command(
                    name="preview",
                    description="show what would be kept and summarised",
                    model_invocable=True,
                ),
                Command(
                    name="undo",
                    description="take the newest compaction back",
                    safety="changes-session",
                ),
            ),
        ),
        _compact,
    ),
    Builtin(
        Command(
            name="context",
            description="show what fills the window",
            when_to_use="Use it to see how much room is left before a large task",
            model_invocable=True,
        ),
        _context,
    ),
    Builtin(Command(name="cost", description="show what the session has cost"), _cost),
    Builtin(
        Command(
            name="undo",
            description="take back the last compaction, clear or rewind",
            safety="changes-session",
        ),
        _undo,
    ),
    Builtin(
        Command(
            name="pin",
            description="keep a message word for word, or list what is kept so",
            argument_hint="[#entry]",
            safety="changes-session",
        ),
        _pin,
    ),
    Builtin(
        Command(
            name="unpin",
            description="no longer keep a message word for word",
            argument_hint="#entry",
            safety="changes-session",
        ),
        _unpin,
    ),
    Builtin(
        Command(
            name="recall",
            description="find words in the session, or show one entry whole",
            argument_hint="words | #entry",
        ),
        _recall,
    ),
    Builtin(
        Command(
            name="history",
            description="list the last entries with their numbers",
            argument_hint="[how many]",
        ),
        _history,
    ),
)
