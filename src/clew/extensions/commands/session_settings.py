"""Commands for settings, such as /mode, /model, /effort, /economy, /theme and /permissions."""

from collections.abc import Iterable

from clew.context.economy import Economy
from clew.core.errors import SessionError
from clew.core.permissions import PermissionMode
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    check_text,
    reject_arguments,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import (
    Command,
    CommandHost,
    CommandResult,
    SetLanguage,
    SetTheme,
    SwitchModel,
)
from clew.permissions.policy import Grant
from clew.permissions.rules import Rule
from clew.session.conversation_edits import set_effort
from clew.tools.mcp.names import is_mcp_tool

_MODEL = 200
_LANGUAGE = 40
_RULE = 120
_MODES = {
    PermissionMode.PLAN: "reads only; changes and commands are denied",
    PermissionMode.DEFAULT: "asks before changes and commands",
    PermissionMode.ACCEPT_EDITS: "edits files without asking; asks before commands",
    PermissionMode.BYPASS: "never asks; only deny rules apply",
}
_LANGUAGES = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "it": "Italiano",
    "ja": "日本語",
    "ko": "한국어",
    "pt": "Português",
    "zh": "中文",
}
_ANY = "any"
_EFFORTS = {
    "low": "reason little: fast and cheap",
    "medium": "reason as much as most tasks need",
    "high": "reason at length: slow and thorough",
}
_DEFAULT = "default"
_ECONOMIES = {
    Economy.FULL: "keep everything up to the compaction threshold",
    Economy.BALANCED: "remove old tool results from half of the window on",
    Economy.LEAN: "compact early to a small working set; look up the rest",
}
_THEMES = {
    "dark": "for a dark background",
    "light": "for a light background",
    "colour-blind": "blue and yellow in place of green and red",
}
_BUILT_IN = "built in"
_MCP = "MCP"


async def _mode(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = host.gate.mode
        rows = [f"{'*' if m is now else ' '} {m:<18} {says}" for m, says in _MODES.items()]
        return build_result([f"permission mode: {now}", *rows], mode=str(now))
    wanted = arguments.replace("-", "").replace("_", "").lower()
    mode = next((mode for mode in _MODES if mode.lower() == wanted), None)
    if mode is None:
        names = ", ".join(_MODES)
        raise SessionError(f"there is no mode {one_line(arguments, 40)}; choose one of: {names}")
    await host.session.set_permission_mode(mode)
    return build_result([f"permission mode: {mode} ({_MODES[mode]})"], mode=str(mode))


async def _model(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        facts = host.session.journal.view.setup.model
        return build_result(
            [
                f"{one_line(facts.name, _MODEL)}: {facts.window:,} tokens of context,"
                f" answers of up to {facts.max_output:,}",
                "switch with /model NAME or /model PROVIDER/NAME",
            ],
            model=facts.name,
            window=facts.window,
            max_output=facts.max_output,
        )
    name = check_text(arguments, _MODEL, "the name of a model", lines=False)
    if len(name.split()) > 1:
        raise SessionError("the name of a model is one word: write /model NAME")
    return build_result([f"switching to {name}"], SwitchModel(name), model=name)


async def _effort(host: CommandHost, arguments: str) -> CommandResult:
    setup = host.session.journal.view.setup
    if not arguments:
        now = setup.effort or "the default of the model"
        return build_result(
            [f"reasoning effort: {now}", "change it with /effort low, medium, high or default"],
            effort=setup.effort,
        )
    wanted = arguments.lower()
    if wanted not in (*_EFFORTS, _DEFAULT):
        names = ", ".join((*_EFFORTS, _DEFAULT))
        raise SessionError(f"there is no effort {one_line(wanted, 40)}; choose one of: {names}")
    effort = "" if wanted == _DEFAULT else wanted
    await set_effort(host.session.state, effort)
    return build_result([f"reasoning effort: {wanted}"], effort=effort)


async def _economy(host: CommandHost, arguments: str) -> CommandResult:
    session, wanted = host.session, arguments.lower()
    if not wanted:
        now = session.state.policy.economy
        rows = [f"{'*' if e is now else ' '} {e:<10} {says}" for e, says in _ECONOMIES.items()]
        return build_result([f"economy: {now}", *rows], economy=str(now))
    session.set_economy(wanted)
    says = _ECONOMIES[Economy(wanted)]
    keep = f"to keep it: clew config set context.economy {wanted}"
    return build_result([f"economy: {wanted} ({says}); {keep}"], economy=wanted)


async def _theme(_: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        rows = [f"  {name:<14} {says}" for name, says in _THEMES.items()]
        return build_result([*rows, "choose one with /theme NAME"], themes=list(_THEMES))
    name = arguments.lower().replace("color", "colour")
    if name not in _THEMES:
        raise SessionError(
            f"there is no theme {one_line(arguments, 40)}; choose one of: {', '.join(_THEMES)}"
        )
    keep = f"theme: {name}; to keep it: clew config set terminal.theme {name}"
    return build_result([keep], SetTheme(name), theme=name)


async def _tools(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "tools")
    origins, offered = host.tool_origins, host.session.journal.view.setup.tools
    tools = [
        {
            "name": spec.name,
            "origin": origins.get(spec.name) or (_MCP if is_mcp_tool(spec.name) else _BUILT_IN),
            "description": one_line(spec.description, _RULE),
        }
        for spec in offered
        if not spec.deferred
    ]
    rows = [f"  {one['name']:<18} {one['description']}  ({one['origin']})" for one in tools]
    return build_result([f"the model has {pluralize(len(rows), 'tool')}:", *rows], tools=tools)


async def _language(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = host.language or "any language"
        return build_result(
            [f"answers are in {now}", "change it with /language NAME"], language=host.language
        )
    name = check_text(arguments, _LANGUAGE, "the name of a language", lines=False)
    if not all(sign.isalpha() or sign in " -_()" for sign in name):
        raise SessionError("write the name or code of a language, such as /language de")
    if name.lower() == _ANY:
        return build_result(["answers can be in any language"], SetLanguage(""), language="")
    return build_result(
        [f"answers will be in {_LANGUAGES.get(name.lower(), name)}"],
        SetLanguage(name),
        language=name,
    )


async def _permissions(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    match word.lower():
        case "" | "list":
            reject_arguments(rest, "permissions list")
            return _list_permissions(host)
        case "clear":
            reject_arguments(rest, "permissions clear")
            count = len(host.session.list_grants())
            host.session.clear_grants()
            said = f"{pluralize(count, 'grant')} of this session revoked"
            return build_result([f"{said}; rules and mode are unchanged"], cleared=count)
        case _:
            raise unknown_subcommand("permissions", word, PERMISSIONS)


def _list_permissions(host: CommandHost) -> CommandResult:
    gate, grants = host.gate, host.session.list_grants()
    rules = {"allow": gate.allow, "ask": gate.ask_rules, "deny": gate.deny}
    lines = [f"permission mode: {gate.mode} ({_MODES[gate.mode]})"]
    for name, found in rules.items():
        lines += [f"{name}: {line}" for line in _rule_lines(found)]
    lines += [f"allowed for this session: {one_line(str(grant), _RULE)}" for grant in grants]
    if not grants:
        lines.append("nothing is allowed for this session")
    return build_result(
        lines,
        mode=str(gate.mode),
        grants=[_grant_facts(grant) for grant in grants],
        **{
            name: [{"rule": str(rule), "source": rule.source} for rule in found]
            for name, found in rules.items()
        },
    )


def _rule_lines(rules: Iterable[Rule]) -> Iterable[str]:
    for rule in rules:
        source = f"  ({one_line(rule.source, 60)})" if rule.source else ""
        yield f"{one_line(str(rule), _RULE)}{source}"


def _grant_facts(grant: Grant) -> dict[str, object]:
    return {"tool": grant.tool, "risk": str(grant.risk), "shape": str(grant)}


PERMISSIONS = Command(
    name="permissions",
    description="show mode, rules and grants of this session, or revoke the grants",
    argument_hint="[list | clear]",
    safety="changes-session",
    subcommands=(
        Command(name="list", description="show mode, rules and grants"),
        Command(
            name="clear",
            description="revoke the grants of this session",
            safety="changes-session",
        ),
    ),
)
SETTINGS_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="mode",
            description="show or change the permission mode",
            argument_hint="[plan | default | acceptEdits | bypassPermissions]",
            safety="changes-session",
            subcommands=tuple(
                Command(name=str(mode), description=says, safety="changes-session")
                for mode, says in _MODES.items()
            ),
        ),
        _mode,
    ),
    Builtin(
        Command(
            name="model",
            description="show the model, or switch to another",
            argument_hint="[NAME | PROVIDER/NAME]",
            safety="changes-session",
        ),
        _model,
    ),
    Builtin(
        Command(
            name="effort",
            description="show or change how much the model reasons",
            argument_hint="[low | medium | high | default]",
            safety="changes-session",
            subcommands=tuple(
                Command(name=name, description=says, safety="changes-session")
                for name, says in (_EFFORTS | {_DEFAULT: "the default of the model"}).items()
            ),
        ),
        _effort,
    ),
    Builtin(
        Command(
            name="economy",
            description="show or change how much of the context window is used",
            argument_hint=f"[{' | '.join(_ECONOMIES)}]",
            safety="changes-session",
            subcommands=tuple(
                Command(name=str(level), description=says, safety="changes-session")
                for level, says in _ECONOMIES.items()
            ),
        ),
        _economy,
    ),
    Builtin(
        Command(
            name="theme",
            description="show or change the colours",
            argument_hint=f"[{' | '.join(_THEMES)}]",
            subcommands=tuple(
                Command(name=name, description=says) for name, says in _THEMES.items()
            ),
        ),
        _theme,
    ),
    Builtin(
        Command(name="tools", description="list the tools of the model and where they come from"),
        _tools,
    ),
    Builtin(
        Command(
            name="language",
            description="show or change the language of answers",
            argument_hint="[NAME | any]",
            safety="changes-session",
            subcommands=tuple(
                Command(name=code, description=f"answer in {name}", safety="changes-session")
                for code, name in (_LANGUAGES | {_ANY: "any language"}).items()
            ),
        ),
        _language,
    ),
    Builtin(PERMISSIONS, _permissions),
)
