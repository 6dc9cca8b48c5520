"""Shell builtins and variable assignments: which of them change what other commands do.

An assignment is harmless when the variable is known to be harmless, or when neither its name
nor its value can make a program run, load or find something else.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from clew.permissions.shell.command_line import ShellWord
from clew.permissions.shell.programs import BENIGN_SET, INERT, PRINTING, word_set

_KNOWN = re.compile(
    r"""(?x)
    NODE_ENV | CI | DEBUG | VERBOSE | LANG | LANGUAGE | LC_\w+ | TZ | TERM | COLORTERM | COLUMNS
    | LINES | NO_COLOR | FORCE_COLOR | CLICOLOR | CLICOLOR_FORCE | DO_NOT_TRACK | PORT | HOST
    | RUST_LOG | RUST_BACKTRACE | CARGO_TERM_COLOR | CARGO_INCREMENTAL | CGO_ENABLED | GOOS
    | GOARCH | GOMAXPROCS | PYTHONUNBUFFERED | PYTHONDONTWRITEBYTECODE | PYTHONHASHSEED
    | PYTHONIOENCODING | PYTHONUTF8 | PYTHONFAULTHANDLER | PYTHONDEVMODE | DOCKER_BUILDKIT
    | COMPOSE_PROJECT_NAME | RAILS_ENV | RACK_ENV | APP_ENV | FLASK_ENV | FLASK_DEBUG | MIX_ENV
    | DJANGO_SETTINGS_MODULE | DEBIAN_FRONTEND | NEXT_TELEMETRY_DISABLED | HUSKY
    """
)
_DANGEROUS = re.compile(
    r"""(?xi)
    (?: RANDOM | SECONDS | SRANDOM | EPOCH\w+ | LINENO | PPID | E?UID | GROUPS | DIRSTACK | PWD
      | OLDPWD )
    | (?: IFS | ENV | PS\d | CC | CXX | CPP | AS | AR | LD | FC | AWK | MAKE | SHELLOPTS | BASHOPTS
      | GLOBIGNORE | EXECIGNORE | OPTIND | OPTARG | FIGNORE | FUNCNEST | HOSTFILE | INPUTRC
      | TERMINFO\w* | TERMCAP | HOSTALIASES | LOCALDOMAIN | RES_OPTIONS | NLSPATH | LESS\w*
      | MORE | MAN\w* | GREP_\w+ | TAR_\w+ | DISPLAY | _ )
    | (?: LD_ | DYLD_ | GIT_ | BASH | PYTHON | PERL | RUBY | GEM_ | BUNDLE | NODE_ | NPM_
        | YARN_ | PNPM_ | COREPACK_ | DENO_ | BUN_ | CARGO_ | RUST | GO[A-Z]*FLAGS | GOPROXY
        | GOROOT | GOBIN | PIP_ | UV_ | POETRY_ | CONDA_ | VIRTUAL_ENV | SSH_ | DOCKER_ | COMPOSE_
        | KUBE | HELM_ | AWS_ | GOOGLE_ | AZURE_ | XDG_ | JAVA_ | JDK_ | MAVEN_ | GRADLE_
        | PHP_ | LUA_ | TCL | HOMEBREW_ | CMAKE_ | MALLOC_ | GCONV_ | ASAN_ | HIST | SUDO_
        | PROMPT_ | COMP_ | READLINE_ | FC | MAIL ) \w*
    | \w* (?: PATH | PRELOAD | OPTIONS | OPTS | FLAGS | ARGS | COMMAND | EXEC | SHELL | WRAPPER
            | EDITOR | VISUAL | PAGER | BROWSER | CONFIG | HOME | PROXY | PLUGIN | LOADER | HOOK
            | COMPILER | STARTUP | ASKPASS | INDEX | REGISTRY | MIRROR | LIBRARY | MODULE
            | REQUIRE | SCRIPT | PROGRAM | TMPDIR | TEMPDIR ) \w*
    | \w+ _ (?: CMD | BIN | RC | RCFILE | LINKER | RUNNER | INIT )
    """
)
_INERT_VALUE = re.compile(r"[\w.,:+%@*=-]{0,200}")
_TAME_VALUE = re.compile(r"(?!/|~)(?!.*\.\.)[^\n\0]{0,500}")


class Assignment(Struct, frozen=True):
    """A variable that a command line sets."""

    name: str
    value: ShellWord | None
    """None for an array, and for a variable that a builtin sets."""
    exported: bool = False


def find_risk(assigned: Assignment) -> str:
    """Return why an assignment may change what runs, or an empty string."""
    if not _KNOWN.fullmatch(assigned.name) and _DANGEROUS.fullmatch(assigned.name):
        return f"it sets `{assigned.name}`, which may change what runs"
    if assigned.exported and not _is_tame(assigned):
        return f"it sets `{assigned.name}` to a value that a program may run or load"
    return ""


def _is_tame(assigned: Assignment) -> bool:
    value = assigned.value
    if value is None or not value.known:
        return False
    allowed = _TAME_VALUE if _KNOWN.fullmatch(assigned.name) else _INERT_VALUE
    return bool(allowed.fullmatch(value.text))


_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_READ_VALUES = frozenset({"-d", "-n", "-N", "-p", "-t", "-u", "-i"})
_READ_CLUSTER = re.compile(r"-[rse]*[dnNptui]?")
_WILD = re.compile(r"[*?]")
_TEST_OPERATORS = word_set("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ! ( ) ]")
OPERATORS_DOUBT = "a word of a condition may be an operator"
_STATUS = re.compile(r"\$[?#]")
_EXPANSION = re.compile(r"[$`*?\[{~<>(]")
_UNKNOWN_WORD = ShellWord("", "", known=False)


class BuiltinEffect(Struct, frozen=True):
    """What a builtin does besides running a program."""

    inert: bool = False
    doubt: str = ""
    cd_target: ShellWord | None = None
    """The directory that it changes into."""


def inspect_builtin(words: Sequence[ShellWord]) -> BuiltinEffect:
    """Inspect a command that may be a builtin; the result is empty for any other program."""
    name, rest = words[0].text, words[1:]
    match name:
        case "cd" | "pushd":
            return BuiltinEffect(cd_target=_folder(rest))
        case "read":
            return BuiltinEffect(inert=True, doubt=_find_name_risk(_read_targets(rest)))
        case "printf" if rest and rest[0].text.startswith("-v"):
            named = rest[1:2] if rest[0].text == "-v" else ()
            return BuiltinEffect(inert=True, doubt=_find_name_risk(named or (_UNKNOWN_WORD,)))
        case "set":
            benign = all(BENIGN_SET.fullmatch(word.text) for word in rest)
            # Alone it prints all variables.
            return BuiltinEffect(inert=bool(rest), doubt="" if benign else "it uses `set`")
        case "test" | "[":
            return BuiltinEffect(inert=True, doubt=_find_test_risk(rest))
        case "wait" if any(word.text.startswith("-p") or not word.known for word in rest):
            return BuiltinEffect(doubt="it sets a variable")
        case "exec":
            return BuiltinEffect(inert=not rest)
        case "printf" if rest and not rest[0].known:
            return BuiltinEffect(doubt="it may set a variable")
        case _ if name in PRINTING:
            return BuiltinEffect(inert=all(map(_is_printable, rest)))
        case _:
            return BuiltinEffect(inert=name in INERT)


def _is_printable(word: ShellWord) -> bool:
    """Is a word known, except for an exit status and for what the line itself computes?"""
    if word.known or not _EXPANSION.search(_STATUS.sub("", word.written)):
        return True
    return word.computed and (word.plain or not word.splits)


def may_be_operators(word: ShellWord) -> bool:
    """May a word become operators of `test`, such as `-v`, which evaluates the index of an array?

    A pattern with three fixed characters does not match a file that is named like an operator.
    """
    if word.globs:
        return "[" in word.text or len(word.text) - len(_WILD.findall(word.text)) < 3
    if word.known or not word.splits or _STATUS.fullmatch(word.text):
        return False
    return not word.values or not all(each.known and each.text for each in word.values)


def _find_test_risk(words: Sequence[ShellWord]) -> str:
    if any(word.text in ("-v", "-R") for word in words):
        return "it looks up a variable by its name"
    # Of two words without an operator between them, the first one is an operator.
    adjacent = any(
        not one.known and not _STATUS.fullmatch(one.text) and other.text not in _TEST_OPERATORS
        for one, other in pairwise(words)
    )
    return OPERATORS_DOUBT if adjacent or any(map(may_be_operators, words)) else ""


def _folder(words: Sequence[ShellWord]) -> ShellWord:
    operands = [word for word in words if word.text not in ("-P", "-L", "--")]
    if len(operands) != 1 or operands[0].text[:1] in ("-", "+", ""):
        return _UNKNOWN_WORD
    return operands[0]


def _find_name_risk(names: Sequence[ShellWord]) -> str:
    for word in names:
        if not (word.known and _VARIABLE_NAME.fullmatch(word.text)):
            return "it sets a variable whose name is known only at run time"
        if problem := find_risk(Assignment(word.text, None)):
            return problem
    return ""


def _read_targets(words: Sequence[ShellWord]) -> list[ShellWord]:
    """Return the variables that `read` sets."""
    names: list[ShellWord] = []
    at = 0
    while at < len(words):
        text = words[at].text
        if text in _READ_VALUES:
            at += 1
        elif not text.startswith("-"):
            names.append(words[at])
        elif text != "-a" and not _READ_CLUSTER.fullmatch(text):
            names.append(_UNKNOWN_WORD)
        elif text[-1] in "dnNptui":
            at += 1
        at += 1
    return names
