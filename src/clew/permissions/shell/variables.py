"""What the variables of a command line may contain, as far as the line itself says so.

A variable that the line sets has a known value, one of a few, or the output of a command in the
line. Any other variable comes from the environment. Only commands that the shell certainly runs
before count: what a branch, a loop, a pipeline or a background command sets is forgotten after it.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from msgspec import Struct

from clew.permissions.shell.command_line import ShellWord
from clew.permissions.shell.programs import word_set

MAX_VALUES = 64
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_SUBSTITUTION = re.compile(r"\$\((?!\()|`")
_PLAIN_WORDS = r"[^*?\[\\$`'\"|;&>(){}\n]*"
_PLAIN_OUTPUT = re.compile(
    r"\$\(\s*(?:git\s+(?:rev-parse|merge-base|rev-list|describe|branch\s+--show-current)"
    rf"|wc|date|pwd|seq|basename|dirname|uname|nproc)\b{_PLAIN_WORDS}\)"
)
"""Commands whose output has no file name patterns if their arguments have none."""
_COMMIT = re.compile(
    r"\$\(\s*git\s+(?:merge-base|rev-parse(?:\s+(?:--short|--verify|-q|--quiet))*)"
    r"((?:\s+[A-Za-z@][\w./~^@-]*)+\s*(?:2>/dev/null\s*)?)\)"
)
"""Commands that print the hash of a commit, a given name, or nothing: never an option."""
_PATTERN = frozenset("*?[")
_BLANK_OR_PATTERN = re.compile(r"[\s*?\[\\]")
_FIXED_START = re.compile(r"[^*?\[~-]")
_UNTRACKED = word_set("_ PWD OLDPWD UID EUID PPID REPLY DIRSTACK GROUPS HOSTNAME SHLVL")
"""Variables that the shell itself sets."""
_MAY_SET = word_set("""
    mapfile readarray getopts source . eval command builtin coproc wait enable let trap declare
    typeset local export readonly unset exec set shift
""")
"""Builtins that may set variables in ways that are not followed here."""
_DECLARATION = re.compile(rb"\b(?:declare|typeset|local|readonly|export\s+-)")
_COMMIT_NAME = ShellWord("HEAD", "HEAD", computed=True)
_COMPUTED = ShellWord("", "", known=False, computed=True)
_EMPTY = ShellWord("", "")
_VANISHED = ShellWord("", "", splits=True)
"""An empty expansion without quotes: it is no word at all."""


class Piece(Struct, frozen=True):
    """A part of a word."""

    text: str
    is_open: bool
    """True for an expansion, False for known text."""
    quoted: bool
    """False when the shell splits what the expansion becomes."""


class Variables(Struct):
    """The variables that are known at one place of a line."""

    known: dict[str, ShellWord]
    hidden: set[str]
    """Names that are not followed."""
    followed: bool = True

    @classmethod
    def start(cls, source: bytes) -> "Variables":
        """Return the variables at the start of a line: none of them is known.

        None is followed where a declaration may change what is assigned, as `declare -u` does.
        """
        return cls({}, set(), followed=not _DECLARATION.search(source))

    def assign(self, name: str, value: ShellWord | None) -> None:
        """Remember what a variable contains; with None it may contain anything."""
        kept = value is not None and (value.known or value.computed or bool(value.values))
        ignored = name in self.hidden or name in _UNTRACKED or not self.followed
        if value is None or not kept or ignored:
            self.known.pop(name, None)
        else:
            self.known[name] = value

    def hide(self, name: str) -> None:
        """Stop following a variable for good."""
        self.hidden.add(name)
        self.known.pop(name, None)

    def forget_changes(self, before: Mapping[str, ShellWord]) -> None:
        """Forget what may have been set since, because it is uncertain whether it was."""
        kept = {name: word for name, word in self.known.items() if before.get(name) is word}
        self.known = kept

    def forget_mentioned(self, text: str) -> None:
        """Forget the variables that a loop may set again."""
        for name in list(self.known):
            if re.search(rf"(?<!\$)(?<!\$\{{)\b{name}\b", text):
                del self.known[name]

    def run(self, words: Sequence[ShellWord]) -> None:
        """Follow what a command does to variables."""
        name = words[0].text
        if name == "read":
            for word in words[1:]:
                self.assign(word.text, _COMPUTED)
        elif name in _MAY_SET or not words[0].known or _may_set_by_printf(words):
            self.known = {}


def _may_set_by_printf(words: Sequence[ShellWord]) -> bool:
    first = words[1] if len(words) > 1 else _EMPTY
    return words[0].text == "printf" and (not first.known or first.text.startswith("-"))


def choose(words: Sequence[ShellWord]) -> ShellWord | None:
    """Return the value of a variable that is each of these words in turn."""
    if not words or not all(word.known or word.globs or _is_one_text(word) for word in words):
        return None
    values = [each for word in words for each in (word.values or (word,))]
    listed = len(values) <= MAX_VALUES and all(each.known or each.globs for each in values)
    return ShellWord(
        "",
        "",
        known=False,
        computed=True,
        plain=all(_is_plain(each) for each in values),
        values=tuple(values) if listed else (),
    )


def _is_one_text(word: ShellWord) -> bool:
    """Does the line itself compute the word, without patterns that the shell would expand?"""
    return word.computed and (word.plain or not word.splits)


def trace_values(
    word: ShellWord, pieces: Sequence[Piece], variables: Mapping[str, ShellWord]
) -> ShellWord:
    """Add to an unknown word what the line says about it."""
    sources = [_find_source(piece, variables) for piece in pieces]
    found = [each for each in sources if each is not None]
    if len(found) < len(sources):
        return word
    return ShellWord(
        word.text,
        word.written,
        known=False,
        splits=word.splits,
        computed=all(each.known or each.computed for each in found),
        plain=all(_is_plain(each) for each in found),
        values=_join(pieces, found),
    )


def _is_plain(word: ShellWord) -> bool:
    # The name of a file that is itself a pattern only matches files beside it.
    return word.plain or word.globs or (word.known and not _PATTERN & set(word.text))


def _find_source(piece: Piece, variables: Mapping[str, ShellWord]) -> ShellWord | None:
    if not piece.is_open:
        return ShellWord(piece.text, piece.text)
    if variable := _VARIABLE.fullmatch(piece.text):
        return variables.get(variable[1] or variable[2])
    if not _SUBSTITUTION.match(piece.text):
        return None
    return ShellWord(
        piece.text,
        piece.text,
        known=False,
        computed=True,
        plain=bool(_PLAIN_OUTPUT.fullmatch(piece.text)),
        values=_find_commits(piece.text),
    )


def _find_commits(substitution: str) -> tuple[ShellWord, ...]:
    """Return what a command prints that looks up a commit: its hash, a given name, or nothing."""
    found = _COMMIT.fullmatch(substitution)
    if not found:
        return ()
    names = [each for each in found[1].split() if each != "2>/dev/null"]
    return (_COMMIT_NAME, _EMPTY, *(ShellWord(name, name, computed=True) for name in names))


def _join(pieces: Sequence[Piece], sources: Sequence[ShellWord]) -> tuple[ShellWord, ...]:
    """Return the words that the parts may form; none if they are too many, or uncertain."""
    choices = [source.values or ((source,) if source.known else ()) for source in sources]
    if not 0 < prod(map(len, choices)) <= MAX_VALUES:
        return ()
    made: dict[ShellWord, None] = {}
    for choice in product(*choices):
        word = _join_one(pieces, choice)
        if word is None:
            return ()
        made[word] = None
    return tuple(made)


def _join_one(pieces: Sequence[Piece], values: Sequence[ShellWord]) -> ShellWord | None:
    """Return the word that these values form, None if the shell may make something else of it."""
    text = "".join(value.text for value in values)
    globs = sum(value.globs for value in values)
    if not text:
        return _EMPTY if any(piece.quoted for piece in pieces) else _VANISHED
    for piece, value in zip(pieces, values, strict=True):
        risky = _PATTERN | {"\\"} if globs and not value.globs else set()
        splits = not piece.quoted and not value.globs and _BLANK_OR_PATTERN.search(value.text)
        if splits or risky & set(value.text):
            return None
    joined = sum(bool(value.text) for value in values) > 1
    if globs > 1 or (globs and joined and not _FIXED_START.match(text)):
        # A file that is named like an option need not exist under the longer name.
        return None
    return ShellWord(
        text,
        text,
        known=not globs,
        globs=bool(globs),
        splits=bool(globs) and not all(piece.quoted for piece in pieces),
        computed=any(value.computed for value in values),
    )


def list_variants(words: Sequence[ShellWord]) -> list[tuple[ShellWord, ...]]:
    """Return the forms of a command in which each word has one of its values; none if unknown."""
    choices = [word.values or (word,) for word in words]
    if not any(word.values for word in words) or prod(map(len, choices)) > MAX_VALUES:
        return []
    found: list[tuple[ShellWord, ...]] = []
    for chosen in product(*choices):
        at = [number for number, word in enumerate(chosen) if word == _VANISHED]
        # Without the word, an option before it would take the next one as its value.
        if 0 in at or any(chosen[number - 1].text.startswith("-") for number in at):
            return []
        names_commit = any(word.computed and word.known for word in chosen)
        if names_commit and chosen[0].text != "git":
            return []
        found.append(tuple(word for word in chosen if word != _VANISHED))
    return found
