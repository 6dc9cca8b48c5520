"""Names of files in other words: `key=file`, `@file`, `file://…`, options with attached values."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from clew.permissions.shell.arguments import Program
from clew.permissions.shell.command_line import FileAccess, ShellWord

_SCHEME = re.compile(r"([a-z][a-z+.-]*):", re.IGNORECASE)
HOST = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)|[a-z]+://", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s'\"=:@,;|&<>()`{}]+")
_HERE = frozenset({"$PWD", "${PWD}", "$(pwd)", "`pwd`"})
_MAX_WORD = 1_000
_MAX_CLUSTER = 12


def make_word(text: str, like: ShellWord | None = None) -> ShellWord:
    """Return a known word, or one that is known as far as another."""
    if like is None:
        return ShellWord(text, text)
    return ShellWord(text, text, known=like.known, globs=like.globs)


def guess_files(words: Sequence[ShellWord], *, tree: bool = False) -> Iterator[FileAccess]:
    """Yield every part of the words that may be the name of a file.

    Args:
        words: The words.
        tree: Whether folders are used with everything in them.
    """
    for word in words:
        if (word.known or word.globs) and 0 < len(word.text) <= _MAX_WORD:
            yield from (
                FileAccess(path=make_word(part, word), writes=not tree, tree=tree)
                for part in dict.fromkeys(_parts(word.text))
            )


def guess_folders(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    """Yield the words that may be folders which a program changes or shows with all their files."""
    for word in words:
        text = "." if word.text in _HERE else word.text
        if text.startswith("-"):
            text = text.partition("=")[2]
        if text and (word.known or text == ".") and len(text) <= _MAX_WORD:
            # A rule against reading also applies to writing.
            yield FileAccess(path=make_word(text), writes=True, tree=True, guessed=True)


def _parts(text: str) -> Iterator[str]:
    yield text
    yield from filter(None, _SEPARATORS.split(text))
    if text.startswith("-") and not text.startswith("--"):
        yield from (text[at:] for at in range(2, min(len(text), _MAX_CLUSTER)))


def find_after_at(value: ShellWord) -> Iterator[FileAccess]:
    """Yield the file in a value such as `@data`, `name=@data` or `%output{log}`."""
    for part in re.split(r"[@<{};]", value.text)[1:]:
        if part:
            yield FileAccess(path=make_word(part, value), writes="%output{" in value.text)


def find_in_address(word: ShellWord, table: Program) -> ShellWord | None:
    """Return the file that a URL refers to; None for other machines."""
    scheme = _SCHEME.match(word.text)
    if scheme and scheme[1].lower() == "file":
        path = unquote(re.sub(r"(?i)^file:(?://(?:localhost|127\.0\.0\.1)?(?=/))?", "", word.text))
        # curl expands braces and brackets in URLs.
        plain = word.known and not set("{}[]") & set(path)
        return ShellWord(path, path, known=plain)
    if not word.known:
        return word
    is_local = table.hosts and not scheme and not HOST.match(word.text)
    return word if is_local else None
