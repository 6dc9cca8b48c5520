"""Redaction marks in texts that a model wants to write: the secrets behind them are put back.

A model reads `password = [redacted:password]` and writes it back when it edits the lines around
it. The mark then stands for the secret of the file. Which one it is must be certain: it follows
from the place (the same enclosing lines and the same text before it in its line), or because no
other secret is left. A mark that may mean two secrets, or none, is refused and never written.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from clew.core.redaction import hide
from clew.core.redaction.marks import MARK_PATTERN, RedactedText
from clew.tools.builtin.files import ToolFailure
from clew.tools.protocol import ToolContext

_Key: TypeAlias = tuple[object, ...]


class MarkedPlace(Struct, frozen=True):
    """A mark in a text, with what tells it from others."""

    start: int
    end: int
    kind: str
    parents: tuple[str, ...]
    """The lines that enclose it, by indentation or as a section."""
    previous: str
    """The line before it that is not blank."""
    before: str
    """The text before it in its line."""


class Secret(Struct, frozen=True):
    """What a mark of the file stands for: the secret, or the mark itself if it is in the file."""

    place: MarkedPlace
    original: str


def hide_file(text: str, context: ToolContext) -> RedactedText:
    """Return the text of a file as the model sees it."""
    if context.redact_values is None:
        return RedactedText(text)
    return hide(text, extra_values=context.redact_values)


def has_mark(text: str) -> bool:
    """Return whether a text contains a redaction mark."""
    return MARK_PATTERN.search(text) is not None


def list_secrets(file: RedactedText, start: int = 0, end: int | None = None) -> list[Secret]:
    """Return the marks in a part of a file and what they stand for, in order."""
    originals = {hidden.start: hidden.original for hidden in file.hidden}
    part = file.text[start:end]
    return [
        Secret(place, originals.get(place.start + start, part[place.start : place.end]))
        for place in _find_marks(part)
    ]


def to_original(file: RedactedText, place: int) -> int | None:
    """Return where a place of the redacted text is in the original; None inside of a mark."""
    shift = 0
    for hidden in file.hidden:
        if place <= hidden.start:
            break
        if place < hidden.end:
            return None
        shift += len(hidden.original) - (hidden.end - hidden.start)
    return place + shift


def restore_secrets(
    new: str, file: Sequence[Secret], shown: str, *, region: Sequence[Secret] | None = None
) -> str:
    """Return `new` with the secrets of a file in place of its marks.

    Args:
        new: The text that a model wants to write.
        file: The secrets of the file as it is.
        shown: The path as the model wrote it.
        region: Those in the part that `new` replaces; all of them, unless given.

    Raises:
        ToolFailure: It is not certain which secret a mark stands for.
    """
    marks = list(_find_marks(new))
    if not marks:
        return new
    found = {mark: _find_by_place(mark, file, region) for mark in marks}
    region = file if region is None else region
    _match_the_rest(found, region)
    _match_only_kind(found, file)
    pieces, done = list[str](), 0
    for mark, secret in found.items():
        if secret is None:
            raise ToolFailure(_explain(new[mark.start : mark.end], shown, known=bool(file)))
        pieces += (new[done : mark.start], secret.original)
        done = mark.end
    return "".join((*pieces, new[done:]))


def _find_by_place(
    mark: MarkedPlace, file: Sequence[Secret], region: Sequence[Secret] | None
) -> Secret | None:
    if region is None:
        searches = [(file, key) for key in _KEYS]
    else:
        # The enclosing lines of a part are not those of the file.
        searches = [*((region, key) for key in _KEYS), (file, _KEYS[-1])]
    for secrets, key in searches:
        wanted = key(mark)
        fitting = [secret for secret in secrets if key(secret.place) == wanted]
        if fitting:
            return fitting[0] if len({secret.original for secret in fitting}) == 1 else None
    return None


_KEYS: tuple[Callable[[MarkedPlace], _Key], ...] = (
    lambda place: (place.parents, place.previous, place.before),
    lambda place: (place.parents, place.before),
    lambda place: (place.before,),
)
"""What identifies a mark, from the most to the least specific."""


def _match_the_rest(found: dict[MarkedPlace, Secret | None], region: Sequence[Secret]) -> None:
    """Match a mark with the only secret of its kind that is left, as when a line was renamed."""
    taken = {secret.place for secret in found.values() if secret}
    open_kinds = Counter(mark.kind for mark, secret in found.items() if secret is None)
    for mark, secret in list(found.items()):
        left = [one for one in region if one.place.kind == mark.kind and one.place not in taken]
        if secret is None and open_kinds[mark.kind] == 1 and len(left) == 1:
            found[mark] = left[0]


def _match_only_kind(found: dict[MarkedPlace, Secret | None], file: Sequence[Secret]) -> None:
    for mark, secret in list(found.items()):
        same = [one for one in file if one.place.kind == mark.kind]
        if secret is None and len({one.original for one in same}) == 1:
            found[mark] = same[0]


def _find_marks(text: str) -> Iterator[MarkedPlace]:
    marks = list(MARK_PATTERN.finditer(text))
    if not marks:
        return
    parents, previous, begin = list[tuple[int, str]](), "", 0
    waiting = iter(marks)
    mark = next(waiting, None)
    for raw in text.splitlines(keepends=True):
        line, end = raw.strip(), begin + len(raw)
        depth = -1 if _is_section(line) else len(raw) - len(raw.lstrip())
        while line and parents and parents[-1][0] >= depth:
            parents.pop()
        while mark is not None and mark.start() < end:
            yield MarkedPlace(
                start=mark.start(),
                end=mark.end(),
                kind=mark[1],
                parents=tuple(name for _, name in parents),
                previous=previous,
                before=_without_kinds(text[begin : mark.start()].lstrip()),
            )
            mark = next(waiting, None)
        if mark is None:
            return
        if line:
            previous = _without_kinds(line)
            parents.append((depth, previous))
        begin = end


def _is_section(line: str) -> bool:
    """Is this the header of a section, as in INI and TOML files?"""
    return line.startswith("[") and line.endswith("]") and not MARK_PATTERN.fullmatch(line)


def _without_kinds(text: str) -> str:
    """Make all marks equal: the same secret may have another kind in another output."""
    return MARK_PATTERN.sub("[redacted]", text)


def _explain(mark: str, shown: str, *, known: bool) -> str:
    about = f"{mark} is a mark that stands for a secret, and marks are never written to a file"
    if known:
        return (
            f"{shown} was not changed: {about}. It is not certain which secret of the file this one"
            " stands for. Use Edit for the other lines only, and leave the line with the secret"
            " as it is."
        )
    return (
        f"{shown} was not changed: {about}. This file has no such secret. Read the value from a"
        " variable or another file at run time, or copy the file that has it with Bash (cp) and"
        " edit the copy."
    )
