"""The text of a summary, without what its author or a program put around it."""

import re
from collections.abc import Iterable

from clew.context.estimate import text_units

_TAGGED = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)
_DRAFT = re.compile(r"<(analysis|think|thinking|scratchpad)>.*?</\1>", re.DOTALL)
_HEADINGS = re.compile(
    r"\A.{0,300}?^\W*Analysis\W*$.*?^\W*Summary\W*$", re.DOTALL | re.MULTILINE | re.IGNORECASE
)
_INSTRUCTIONS = re.compile(
    r"^(?:If you need specific details from before compaction"
    r"|Please continue the conversation from where we left).*$\n?",
    re.MULTILINE,
)


def clean_summary(text: str) -> str:
    """Return a summary without the draft before it and the instructions after it.

    Models write an analysis to prepare a summary; the summary itself is what a `summary` element
    or the text below the heading "Summary" contains. Programs add how to continue. A text
    without such parts is returned as it is.
    """
    tagged = _TAGGED.search(text)
    kept = tagged.group(1) if tagged else _HEADINGS.sub("", _DRAFT.sub("", text), count=1)
    return _INSTRUCTIONS.sub("", kept).strip() or text.strip()


_CODE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_QUOTATION = re.compile(r"[\s\"“”*`]+")
_LEAST_QUOTED = 20
"""Characters; a shorter line may be the user's words by chance."""


def shorten_notes(notes: str, *, max_units: int, said: Iterable[str]) -> str:
    """Return notes without code and the user's words, if they are longer than was asked for.

    What follows the notes has both: the digest quotes the requests, and the most important lines.

    Args:
        notes: What a model wrote.
        max_units: How long it was asked to be at most.
        said: The requests of the user.
    """
    if text_units(notes) > max_units:
        notes = _CODE.sub("", notes).strip() or notes
    if text_units(notes) <= max_units:
        return notes
    words = _plain("\n".join(said))
    kept = [line for line in notes.split("\n") if not _is_quoted(line, words)]
    return "\n".join(kept).strip() or notes


def _is_quoted(line: str, words: str) -> bool:
    quoted = _plain(_BULLET.sub("", line))
    return len(quoted) >= _LEAST_QUOTED and quoted in words


def _plain(text: str) -> str:
    return _QUOTATION.sub(" ", text).strip()
