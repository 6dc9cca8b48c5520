"""Programs that run code from their arguments or options: interpreters, `sed`, `awk`, `git`."""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.command_line import ShellWord, program_name
from clew.permissions.shell.programs import (
    CODE_OPTIONS,
    ENDS_OPTIONS,
    GIT_EXEC,
    GIT_EXEC_BY_SUBCOMMAND,
    GIT_SENSITIVE_OPTIONS,
    GIT_SENSITIVE_SUBCOMMANDS,
    GIT_VALUES,
    INFO_OPTIONS,
    INTERPRETER_FLAGS,
    INTERPRETERS,
    OPTION_MAY_APPEAR,
    RUNS_INPUT,
)
from clew.permissions.shell.wrappers import NestedCommands

UNSPELLABLE = "\0"
"""A sensitive word that no rule can contain, so no rule with a pattern allows the command."""
_VERSION = re.compile(r"[\d.]+$")
_CLUSTER = re.compile(r"-([A-Za-z]+)")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\]|\\.)*/I?)"
_SED_STEP = re.compile(
    rf"(?:{_ADDRESS}(?:,{_ADDRESS})?!?)?\s*"
    r"(?:[pdqDPNG=hHgx]|s(?P<mark>[/|#,:@!])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gipI\d]*)\s*"
)
_SED_OTHER_SCRIPT = re.compile(r"-[nErzsu]*f|--file|-[nErzsu]+e|--expression")
_AWK_SIDE_EFFECTS = re.compile(r"system|getline|[|>@`]|close|ARGV|ENVIRON")


def inspect_program(words: Sequence[ShellWord]) -> NestedCommands:
    """Find code and dangerous options in the arguments of a program other than a wrapper."""
    program = program_name(words)
    if program == "sed":
        return _inspect_sed(words)
    if program in ("awk", "gawk", "mawk"):
        return _inspect_awk(words)
    inside = _inspect_interpreter(words, program)
    if program in OPTION_MAY_APPEAR and any(map(_may_be_option, words[1:], words)):
        inside.sensitive_words = (*inside.sensitive_words, UNSPELLABLE)
    return inside


def _inspect_interpreter(words: Sequence[ShellWord], program: str) -> NestedCommands:
    interprets = bool(INTERPRETERS.fullmatch(program))
    base = _VERSION.sub("", program)
    options = CODE_OPTIONS.get(base, frozenset())
    given = list(_before_script(words[1:])) if interprets else list(words[1:])
    found = tuple(
        _option_name(word.text, options) for word in given if _is_code(word.text, options)
    )
    if found:
        return NestedCommands(
            sensitive_words=found, opaque_reason=f"`{base}` runs code from its arguments"
        )
    tells = any(word.text in INFO_OPTIONS for word in given)
    waits = program in RUNS_INPUT or (interprets and len(given) == len(words) - 1)
    if waits and not tells:
        reason = f"`{program}` runs code from its standard input"
        return NestedCommands(sensitive_words=(UNSPELLABLE,), opaque_reason=reason)
    return NestedCommands()


def _before_script(words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """Yield the options of an interpreter; arguments after the script belong to the script."""
    before = ""
    for word in words:
        is_option = word.text.startswith("-")
        takes_word = before.startswith("-") and before not in INTERPRETER_FLAGS
        if word.text in ENDS_OPTIONS or not (is_option or takes_word):
            return
        yield word
        before = word.text


def _is_code(word: str, options: frozenset[str]) -> bool:
    if word in options or (word.startswith("--") and word.partition("=")[0] in options):
        return True
    letters = {option[1] for option in options if len(option) == 2 and option[0] == "-"}
    cluster = _CLUSTER.match(word)
    return bool(cluster) and bool(letters & set(cluster[1] if cluster else ""))


def _option_name(word: str, options: frozenset[str]) -> str:
    name = word.partition("=")[0]
    return name if name in options else word


def _may_be_option(word: ShellWord, before: ShellWord) -> bool:
    if word.known or word.text[:1] not in ("$", "*", "?", "[", "`"):
        return False
    return not (before.text.startswith("-") and word.written.startswith('"'))


def _inspect_sed(words: Sequence[ShellWord]) -> NestedCommands:
    scripts: list[ShellWord] = []
    operands: list[ShellWord] = []
    caution: list[str] = []
    at = 1
    while at < len(words):
        text = words[at].text
        if text in ("-e", "--expression"):
            scripts += words[at + 1 : at + 2]
            at += 1
        elif _SED_OTHER_SCRIPT.match(text):
            caution.append(text)
        elif not text.startswith("-") or text == "-":
            operands.append(words[at])
        at += 1
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    caution += (word.text for word in scripts if not (word.known and _is_tame_sed(word.text)))
    opaque_reason = "its `sed` script may run commands or write files" if caution else ""
    if any(_may_be_option(word, word) for word in operands):
        caution.append(UNSPELLABLE)
    return NestedCommands(sensitive_words=tuple(caution), opaque_reason=opaque_reason)


def _is_tame_sed(script: str) -> bool:
    at = 0
    while at < len(script):
        step = _SED_STEP.match(script, at)
        if not step:
            return False
        at = step.end()
        if at < len(script) and script[at] not in ";\n":
            return False
        at += len(script[at:]) - len(script[at:].lstrip("; \n"))
    return True


def _inspect_awk(words: Sequence[ShellWord]) -> NestedCommands:
    operands: list[ShellWord] = []
    caution: list[str] = []
    at = 1
    while at < len(words):
        text = words[at].text
        if text in ("-F", "-v", "--field-separator", "--assign"):
            at += 1
        elif not text.startswith("-"):
            operands.append(words[at])
        elif not text.startswith(("-F", "-v")):
            caution.append(text)
        at += 1
    if operands and not (operands[0].known and not _AWK_SIDE_EFFECTS.search(operands[0].text)):
        caution.append(operands[0].text)
    return NestedCommands(
        sensitive_words=tuple(caution),
        opaque_reason="its `awk` program may run commands or write files" if caution else "",
    )


_CONFIG_OPTIONS = frozenset({"-c", "--config-env", "--exec-path"})


def inspect_git(words: Sequence[ShellWord]) -> NestedCommands:
    """Find the options and subcommands that make git run another program."""
    inside = NestedCommands()
    at = 1
    while at < len(words) and words[at].known and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if name in GIT_VALUES and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        at += 1
        if name not in GIT_SENSITIVE_OPTIONS or (name == "-C" and value == "."):
            continue
        inside.sensitive_words += (name,)
        if name in _CONFIG_OPTIONS:
            inside.opaque_reason = f"`git {name}` may make git run another program"
        if "=!" in value:
            inside.scripts.append(value.partition("=!")[2])
    if at < len(words) and words[at].known:
        _inspect_subcommand(words[at].text, words[at + 1 :], inside)
    elif at < len(words):
        inside.sensitive_words += (UNSPELLABLE,)
    return inside


def _inspect_subcommand(name: str, rest: Sequence[ShellWord], inside: NestedCommands) -> None:
    own = GIT_EXEC_BY_SUBCOMMAND.get(name, frozenset())
    if name in GIT_SENSITIVE_SUBCOMMANDS:
        inside.sensitive_words += (name,)
    for at, word in enumerate(rest):
        option, equals, value = word.text.partition("=")
        attached = next((each for each in own if len(each) == 2 and word.text[:2] == each), "")
        if option in GIT_EXEC | own:
            inside.sensitive_words += (option,)
        elif attached:
            inside.sensitive_words += (word.text,)
            equals, value = "=", word.text[2:]
        elif own and not word.known:
            inside.sensitive_words += (UNSPELLABLE,)
            continue
        else:
            continue
        if option != "--output":
            inside.opaque_reason = "an option makes `git` run another program"
            _add_run(option, value if equals else None, rest[at + 1 :], inside)


def _add_run(
    option: str, value: str | None, following: Sequence[ShellWord], inside: NestedCommands
) -> None:
    if option == "run" and following:
        inside.argvs.append(tuple(following))
    elif value is not None:
        inside.scripts.append(value)
    else:
        count = len(following) if option == "foreach" else 1
        inside.scripts.append(" ".join(word.text for word in following[:count]))
