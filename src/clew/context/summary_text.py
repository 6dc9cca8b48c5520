"""The text of a summary, without what its author or a program put around it."""

import re

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


_FENCE = re.compile(r"[ \t]*(```|~~~)")


def drop_code(text: str) -> str:
    """Return a text without its fenced pieces of code; one that is never closed stays."""
    kept: list[str] = []
    start, fence = 0, ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is None or (fence and line.strip() != fence):
            kept.append(line)
        elif fence:
            del kept[start:]
            fence = ""
        else:
            start, fence = len(kept), found[1]
            kept.append(line)
    return "\n".join(kept).strip() or text
