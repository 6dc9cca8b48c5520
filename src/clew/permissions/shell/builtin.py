"""Words of the shell itself: which of them touch nothing, and which set variables."""

import re
from collections.abc import Sequence

from msgspec import Struct

from clew.permissions.shell.line import Word
from clew.permissions.shell.names import problem_with
from clew.permissions.shell.programs import BENIGN_SET, INERT, PRINTING
from clew.permissions.shell.walk import Assigned

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_READ_VALUES = frozenset({"-d", "-n", "-N", "-p", "-t", "-u", "-i"})
_READ_CLUSTER = re.compile(r"-[rse]*[dnNptui]?")
_UNKNOWN = Word("", "", known=False)


class Builtin(Struct, frozen=True):
    """What a word of the shell does."""

    inert: bool = False
    doubt: str = ""
    moves: Word | None = None
    """The folder that it changes into."""


def judge_builtin(words: Sequence[Word]) -> Builtin:
    """Judge a command that may be a builtin; nothing is said about any other program."""
    name, rest = words[0].text, words[1:]
    match name:
        case "cd" | "pushd":
            return Builtin(moves=_folder(rest))
        case "read":
            return Builtin(inert=True, doubt=_naming(_names_read(rest)))
        case "printf" if rest and rest[0].text.startswith("-v"):
            named = rest[1:2] if rest[0].text == "-v" else ()
            return Builtin(inert=True, doubt=_naming(named or (_UNKNOWN,)))
        case "set":
            benign = all(BENIGN_SET.fullmatch(word.text) for word in rest)
            return Builtin(inert=True, doubt="" if benign else "it uses `set`")
        case "test" | "[" if rest and (rest[0].text in ("-v", "-R") or not rest[0].known):
            told = rest[0].written.startswith('"')
            return Builtin(inert=told, doubt="" if told else "it looks up a variable by its name")
        case "exec":
            return Builtin(inert=not rest)
        case _ if name in PRINTING:
            return Builtin(inert=all(word.known for word in rest))
        case _:
            return Builtin(inert=name in INERT)


def _folder(words: Sequence[Word]) -> Word:
    operands = [word for word in words if word.text not in ("-P", "-L", "--")]
    if len(operands) != 1 or operands[0].text[:1] in ("-", "+", ""):
        return _UNKNOWN
    return operands[0]


def _naming(names: Sequence[Word]) -> str:
    for word in names:
        if not (word.known and _VARIABLE.fullmatch(word.text)):
            return "it sets a variable that is not named"
        if problem := problem_with(Assigned(word.text, None)):
            return problem
    return ""


def _names_read(words: Sequence[Word]) -> list[Word]:
    """Return the names that `read` sets."""
    names: list[Word] = []
    at = 0
    while at < len(words):
        text = words[at].text
        if text in _READ_VALUES:
            at += 1
        elif not text.startswith("-"):
            names.append(words[at])
        elif text != "-a" and not _READ_CLUSTER.fullmatch(text):
            names.append(_UNKNOWN)
        elif text[-1] in "dnNptui":
            at += 1
        at += 1
    return names
