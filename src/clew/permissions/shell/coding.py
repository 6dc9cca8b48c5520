"""Programs that can be handed code: which words only a rule that spells them may allow."""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.line import Word, program_of
from clew.permissions.shell.programs import (
    CODE,
    ENDS_OPTIONS,
    INTERPRETER_FLAGS,
    INTERPRETERS,
    ONLY_TELLS,
    OPTION_MAY_APPEAR,
    RUNS_INPUT,
)
from clew.permissions.shell.runners import Inside

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


def judge_code(words: Sequence[Word]) -> Inside:
    """Find the code in the words of a program that is no runner."""
    program = program_of(words)
    if program == "sed":
        return _sed(words)
    if program in ("awk", "gawk", "mawk"):
        return _awk(words)
    inside = _coded(words, program)
    if program in OPTION_MAY_APPEAR and any(map(_may_be_option, words[1:], words)):
        inside.caution = (*inside.caution, NEVER)
    return inside


def _coded(words: Sequence[Word], program: str) -> Inside:
    interprets = bool(INTERPRETERS.fullmatch(program))
    base = _VERSION.sub("", program)
    options = CODE.get(base, frozenset())
    given = list(_before_script(words[1:])) if interprets else list(words[1:])
    found = tuple(_option(word.text, options) for word in given if _is_code(word.text, options))
    if found:
        return Inside(caution=found, hides=f"`{base}` runs what it is given")
    tells = any(word.text in ONLY_TELLS for word in given)
    waits = program in RUNS_INPUT or (interprets and len(given) == len(words) - 1)
    if waits and not tells:
        reason = f"`{program}` runs what comes through its standard input"
        return Inside(caution=(NEVER,), hides=reason)
    return Inside()


def _before_script(words: Sequence[Word]) -> Iterator[Word]:
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


def _may_be_option(word: Word, before: Word) -> bool:
    if word.known or word.text[:1] not in ("$", "*", "?", "[", "`"):
        return False
    return not (before.text.startswith("-") and word.written.startswith('"'))


def _sed(words: Sequence[Word]) -> Inside:
    scripts: list[Word] = []
    operands: list[Word] = []
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
    return Inside(caution=tuple(caution), hides=hides)


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


def _awk(words: Sequence[Word]) -> Inside:
    operands: list[Word] = []
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
    return Inside(
        caution=tuple(caution), hides="its `awk` program may do anything" if caution else ""
    )
