"""Programs that can be handed code: which words only a rule that spells them may allow."""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.command_line import ShellWord, program_name
from clew.permissions.shell.programs import (
    CODE,
    ENDS_OPTIONS,
    GIT_DELICATE,
    GIT_DELICATE_SUBCOMMANDS,
    GIT_RUNS,
    GIT_RUNS_BY_SUBCOMMAND,
    GIT_VALUES,
    INTERPRETER_FLAGS,
    INTERPRETERS,
    ONLY_TELLS,
    OPTION_MAY_APPEAR,
    RUNS_INPUT,
)
from clew.permissions.shell.wrappers import NestedCommands

NEVER = "\0"
"""A word that no rule can spell."""
_VERSION = re.compile(r"[\d.]+$")
_CLUSTER = re.compile(r"-([A-Za-z]+)")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\]|\\.)*/I?)"
_SED_STEP = re.compile(
    rf"(?:{_ADDRESS}(?:,{_ADDRESS})?!?)?\s*"
    r"(?:[pdqDPNG=hHgx]|s(?P<mark>[/|#,:@!])(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\.)*(?P=mark)[gipI\d]*)\s*"
)
_SED_OTHER_SCRIPT = re.compile(r"-[nErzsu]*f|--file|-[nErzsu]+e|--expression")
_AWK_DOES = re.compile(r"system|getline|[|>@`]|close|ARGV|ENVIRON")


def inspect_program(words: Sequence[ShellWord]) -> NestedCommands:
    """Find the code in the words of a program that is no runner."""
    program = program_name(words)
    if program == "sed":
        return _sed(words)
    if program in ("awk", "gawk", "mawk"):
        return _awk(words)
    inside = _coded(words, program)
    if program in OPTION_MAY_APPEAR and any(map(_may_be_option, words[1:], words)):
        inside.caution = (*inside.caution, NEVER)
    return inside


def _coded(words: Sequence[ShellWord], program: str) -> NestedCommands:
    interprets = bool(INTERPRETERS.fullmatch(program))
    base = _VERSION.sub("", program)
    options = CODE.get(base, frozenset())
    given = list(_before_script(words[1:])) if interprets else list(words[1:])
    found = tuple(_option(word.text, options) for word in given if _is_code(word.text, options))
    if found:
        return NestedCommands(caution=found, hides=f"`{base}` runs what it is given")
    tells = any(word.text in ONLY_TELLS for word in given)
    waits = program in RUNS_INPUT or (interprets and len(given) == len(words) - 1)
    if waits and not tells:
        reason = f"`{program}` runs what comes through its standard input"
        return NestedCommands(caution=(NEVER,), hides=reason)
    return NestedCommands()


def _before_script(words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """Yield the options of an interpreter: what follows the script belongs to the script."""
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


def _option(word: str, options: frozenset[str]) -> str:
    name = word.partition("=")[0]
    return name if name in options else word


def _may_be_option(word: ShellWord, before: ShellWord) -> bool:
    if word.known or word.text[:1] not in ("$", "*", "?", "[", "`"):
        return False
    return not (before.text.startswith("-") and word.written.startswith('"'))


def _sed(words: Sequence[ShellWord]) -> NestedCommands:
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
    hides = "its `sed` script may do anything" if caution else ""
    if any(_may_be_option(word, word) for word in operands):
        caution.append(NEVER)
    return NestedCommands(caution=tuple(caution), hides=hides)


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


def _awk(words: Sequence[ShellWord]) -> NestedCommands:
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
    if operands and not (operands[0].known and not _AWK_DOES.search(operands[0].text)):
        caution.append(operands[0].text)
    return NestedCommands(
        caution=tuple(caution), hides="its `awk` program may do anything" if caution else ""
    )


_SETTINGS = frozenset({"-c", "--config-env", "--exec-path"})


def inspect_git(words: Sequence[ShellWord]) -> NestedCommands:
    """Find the options and subcommands with which git runs something else."""
    inside = NestedCommands()
    at = 1
    while at < len(words) and words[at].known and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if name in GIT_VALUES and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        at += 1
        if name not in GIT_DELICATE or (name == "-C" and value == "."):
            continue
        inside.caution += (name,)
        if name in _SETTINGS:
            inside.hides = f"`git {name}` may make git run something"
        if "=!" in value:
            inside.scripts.append(value.partition("=!")[2])
    if at < len(words) and words[at].known:
        _subcommand(words[at].text, words[at + 1 :], inside)
    elif at < len(words):
        inside.caution += (NEVER,)
    return inside


def _subcommand(name: str, rest: Sequence[ShellWord], inside: NestedCommands) -> None:
    own = GIT_RUNS_BY_SUBCOMMAND.get(name, frozenset())
    if name in GIT_DELICATE_SUBCOMMANDS:
        inside.caution += (name,)
    for at, word in enumerate(rest):
        option, equals, value = word.text.partition("=")
        attached = next((each for each in own if len(each) == 2 and word.text[:2] == each), "")
        if option in GIT_RUNS | own:
            inside.caution += (option,)
        elif attached:
            inside.caution += (word.text,)
            equals, value = "=", word.text[2:]
        elif own and not word.known:
            inside.caution += (NEVER,)
            continue
        else:
            continue
        if option != "--output":
            inside.hides = "an option makes `git` run something"
            _run(option, value if equals else None, rest[at + 1 :], inside)


def _run(
    option: str, value: str | None, following: Sequence[ShellWord], inside: NestedCommands
) -> None:
    if option == "run" and following:
        inside.argvs.append(tuple(following))
    elif value is not None:
        inside.scripts.append(value)
    else:
        count = len(following) if option == "foreach" else 1
        inside.scripts.append(" ".join(word.text for word in following[:count]))
