"""Programs that run code from their arguments or options: interpreters, `sed`, `awk`, `git`."""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.arguments import Argument, Program, parse_arguments
from clew.permissions.shell.command_line import ShellWord, program_name
from clew.permissions.shell.file_arguments import find_table
from clew.permissions.shell.programs import (
    CODE_OPTIONS,
    ENDS_OPTIONS,
    INFO_OPTIONS,
    INTERPRETER_FLAGS,
    INTERPRETERS,
    OPTION_MAY_APPEAR,
    RUNS_INPUT,
)
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.git import (
    GLOBAL_FLAGS,
    GLOBAL_VALUES,
    MAY_TURN_OUT_TO_RUN,
    RUN_WORDS,
    RUNS_SETTINGS,
    SENSITIVE_GLOBALS,
    SUBCOMMANDS,
)
from clew.permissions.shell.wrappers import NestedCommands

UNSPELLABLE = "\0"
"""A sensitive word that no rule can contain, so no rule with a pattern allows the command."""
_RUNS_PLUS = frozenset({"view", "less", "more"})
"""Programs that run an operand such as `+command`."""
_VERSION = re.compile(r"[\d.]+$")
_CLUSTER = re.compile(r"-([A-Za-z]+)")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\]|\\.)*/I?)"
_SED_STEP = re.compile(
    rf"(?:{_ADDRESS}(?:,{_ADDRESS})?!?)?\s*"
    r"(?:[pdqDPNG=hHgx]|s(?P<mark>[/|#,:@!])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gipI\d]*)\s*"
)
_SED_SCRIPTS = frozenset({"-e", "--expression"})
_SED_FILES = frozenset({"-f", "--file"})
_GIT_HELPER = re.compile(r"[\w+-]+::")
"""An address such as `ext::command`, which git passes to a program of that name."""
_AWK_OPERATORS = re.compile(r"\|\||>=")
_AWK_CONDITION = re.compile(r"[^{}\"/\\#]*")
"""The condition before the first action: there, `>` compares."""
_AWK_SIDE_EFFECTS = re.compile(r"system|getline|[|>@`]|close|ARGV|ENVIRON|SYMTAB|FUNCTAB")


def inspect_program(words: Sequence[ShellWord]) -> NestedCommands:
    """Find code and dangerous options in the arguments of a program other than a wrapper."""
    program = program_name(words)
    if program == "sed":
        return _inspect_sed(words)
    if program in ("awk", "gawk", "mawk"):
        return _inspect_awk(words)
    inside = _inspect_table(words, program) or _inspect_interpreter(words, program)
    if program in OPTION_MAY_APPEAR and any(map(_may_be_option, words[1:], words)):
        inside.sensitive_words = (*inside.sensitive_words, UNSPELLABLE)
    return inside


def _inspect_table(words: Sequence[ShellWord], program: str) -> NestedCommands | None:
    """Find the options that make a program with a table run another one."""
    table, given = find_table(words)
    if table is None:
        return None
    arguments = parse_arguments(given, table)
    found = tuple(
        _spelled(each, table.executes)
        for each in arguments
        if table.executes.intersection(each.names)
    )
    if program in _RUNS_PLUS:
        found += tuple(each.word.text for each in arguments if each.word.text.startswith("+"))
    reason = f"an option makes `{program}` run another program" if found else ""
    return NestedCommands(sensitive_words=found, opaque_reason=reason)


def _spelled(given: Argument, options: frozenset[str]) -> str:
    """Return what a rule must contain to allow an option."""
    name = given.word.text.partition("=")[0]
    return name if name in options else given.word.text


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
    arguments = parse_arguments(words[1:], PROGRAMS["sed"])
    scripts = [each.value for each in arguments if _SED_SCRIPTS.intersection(each.names)]
    caution = [each.word.text for each in arguments if _SED_FILES.intersection(each.names)]
    operands = [each.word for each in arguments if not each.is_option]
    if not scripts and not caution:
        scripts, operands = list(operands[:1]), operands[1:]
    caution += (
        "" if word is None else word.text
        for word in scripts
        if word is None or not (word.known and _is_tame_sed(word.text))
    )
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


def _awk_may_act(program: str) -> bool:
    """May an awk program do more than print what it reads?"""
    plain = _AWK_OPERATORS.sub(" ", program)
    condition = _AWK_CONDITION.match(plain)
    size = condition.end() if condition else 0
    return bool(_AWK_SIDE_EFFECTS.search(plain[:size].replace(">", " ") + plain[size:]))


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
    if operands and not (operands[0].known and not _awk_may_act(operands[0].text)):
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
        if name in GLOBAL_VALUES and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        at += 1
        if name in GLOBAL_FLAGS or (name == "-C" and value == "."):
            continue
        if name not in GLOBAL_VALUES or name in SENSITIVE_GLOBALS:
            inside.sensitive_words += (name,)
        if name in _CONFIG_OPTIONS or name not in GLOBAL_VALUES:
            inside.opaque_reason = f"`git {name}` may make git run another program"
        if "=!" in value:
            inside.scripts.append(value.partition("=!")[2])
    if at < len(words) and words[at].known:
        _inspect_subcommand(words[at].text, words[at + 1 :], inside)
    elif at < len(words):
        inside.sensitive_words += (UNSPELLABLE,)
    return inside


def _inspect_subcommand(name: str, rest: Sequence[ShellWord], inside: NestedCommands) -> None:
    table = SUBCOMMANDS.get(name, Program())
    if name in RUNS_SETTINGS:
        inside.sensitive_words += (name,)
    for each in parse_arguments(rest, table):
        if table.executes.intersection(each.names):
            inside.sensitive_words += (_spelled(each, table.executes),)
            inside.opaque_reason = "an option makes `git` run another program"
            if each.value is not None:
                inside.scripts.append(each.value.text)
        elif "--output" in each.names:
            inside.sensitive_words += ("--output",)
        elif _GIT_HELPER.match(each.word.text):
            inside.sensitive_words += (each.word.text,)
            inside.opaque_reason = "an address makes `git` run another program"
        elif name in MAY_TURN_OUT_TO_RUN and not each.word.known:
            inside.sensitive_words += (UNSPELLABLE,)
    _add_run(name, rest, inside)


def _add_run(name: str, rest: Sequence[ShellWord], inside: NestedCommands) -> None:
    """Add the command of `git bisect run` and `git submodule foreach`."""
    texts = [word.text for word in rest]
    mark = RUN_WORDS.get(name)
    if mark is None or mark not in texts:
        return
    inside.sensitive_words += (mark,)
    inside.opaque_reason = "an option makes `git` run another program"
    following = tuple(rest[texts.index(mark) + 1 :])
    if mark == "run" and following:
        inside.argvs.append(following)
    elif following:
        inside.scripts.append(" ".join(word.text for word in following))
