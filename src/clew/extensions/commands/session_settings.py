"""Commands about how a session works: its mode, model, language and permissions."""

from collections.abc import Iterable

from clew.core.access import PermissionMode
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
from clew.extensions.commands.protocol import (
    Command,
    CommandHost,
    CommandResult,
    SetLanguage,
    SwitchModel,
)
from clew.permissions.policy import Grant
from clew.permissions.rules import Rule

_MODEL = 200
_LANGUAGE = 40
_RULE = 120
_MODES = {
    PermissionMode.PLAN: "only looks; nothing is changed or run",
    PermissionMode.DEFAULT: "asks before anything is changed or run",
    PermissionMode.ACCEPT_EDITS: "changes files without asking, asks before commands",
    PermissionMode.BYPASS: "asks about nothing; only deny rules hold",
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


async def _mode(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = host.gate.mode
        rows = [f"{'*' if m is now else ' '} {m:<18} {says}" for m, says in _MODES.items()]
        return build_result([f"permission mode: {now}", *rows], mode=str(now))
    wanted = arguments.replace("-", "").replace("_", "").lower()
    mode = next((mode for mode in _MODES if mode.lower() == wanted), None)
    if mode is None:
        names = ", ".join(_MODES)
        raise SessionError(f"there is no mode {one_line(arguments, 40)}; write one of: {names}")
    await host.session.set_permission_mode(mode)
    return build_result([f"permission mode: {mode}, which {_MODES[mode]}"], mode=str(mode))


async def _model(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        facts = host.session.journal.view.setup.model
        return build_result(
            [
                f"{one_line(facts.name, _MODEL)}: a window of {facts.window:,} tokens,"
                f" answers to {facts.max_output:,}",
                "go on with another: /model NAME or /model PROVIDER/NAME",
            ],
            model=facts.name,
            window=facts.window,
            max_output=facts.max_output,
        )
    name = fit(arguments, _MODEL, "the name of a model", lines=False)
    if len(name.split()) > 1:
        raise SessionError("the name of a model is one word: write /model NAME")
    return build_result([f"going on with {name}"], SwitchModel(name), model=name)


async def _language(host: CommandHost, arguments: str) -> CommandResult:
    if not arguments:
        now = host.language or "any; the model decides"
        return build_result(
            [f"answers are in: {now}", "change it: /language NAME"], language=host.language
        )
    name = fit(arguments, _LANGUAGE, "the name of a language", lines=False)
    if not all(sign.isalpha() or sign in " -_()" for sign in name):
        raise SessionError("write a language by its name or code, such as /language de")
    if name.lower() == _ANY:
        return build_result(["answers may be in any language"], SetLanguage(""), language="")
    return build_result(
        [f"answers will be in {_LANGUAGES.get(name.lower(), name)}"],
        SetLanguage(name),
        language=name,
    )


async def _permissions(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split(arguments)
    match word.lower():
        case "" | "list":
            nothing_more(rest, "permissions list")
            return _listed(host)
        case "clear":
            nothing_more(rest, "permissions clear")
            count = len(host.session.list_grants())
            host.session.clear_grants()
            said = f"{pluralize(count, 'grant')} of this session taken back"
            return build_result([f"{said}; rules and mode stay"], cleared=count)
        case _:
            raise no_such("permissions", word, PERMISSIONS)


def _listed(host: CommandHost) -> CommandResult:
    gate, grants = host.gate, host.session.list_grants()
    rules = {"allow": gate.allow, "ask": gate.ask_rules, "deny": gate.deny}
    lines = [f"permission mode: {gate.mode}, which {_MODES[gate.mode]}"]
    for name, found in rules.items():
        lines += [f"{name}: {line}" for line in _rule_lines(found)]
    lines += [f"allowed for this session: {one_line(str(grant), _RULE)}" for grant in grants]
    if not grants:
        lines.append("nothing was allowed for this session")
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
    description="show mode, rules and what was allowed for this session, or take that back",
    argument_hint="[list | clear]",
    safety="changes-session",
    subcommands=(
        Command(name="list", description="show mode, rules and grants"),
        Command(
            name="clear",
            description="take back what was allowed for this session",
            safety="changes-session",
        ),
    ),
)
WAYS_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="mode",
            description="show how much runs without asking, or change it",
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
            description="show the model, or go on with another",
            argument_hint="[NAME | PROVIDER/NAME]",
            safety="changes-session",
        ),
        _model,
    ),
    Builtin(
        Command(
            name="language",
            description="show the language of answers, or change it",
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
