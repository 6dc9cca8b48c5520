"""The text of a summary, without what its author or a program put around it."""

import re

_TAGGED = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)
_DRAFTS = ("analysis", "think", "thinking", "scratchpad")
"""Elements in which models prepare a summary."""
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
    kept = tagged.group(1) if tagged else _HEADINGS.sub("", _drop_drafts(text), count=1)
    return _INSTRUCTIONS.sub("", kept).strip() or text.strip()


def _drop_drafts(text: str) -> str:
    for name in _DRAFTS:
        start = text.find(f"<{name}>")
        while start >= 0 and (end := text.find(f"</{name}>", start)) >= 0:
            text = text[:start] + text[end + len(name) + 3 :]
            start = text.find(f"<{name}>", start)
    return text


_OPENED = re.compile(r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)*(`{3,}|~{3,})[^`]*")
_CLOSED = re.compile(r"\s*(`{3,}|~{3,})\s*")


def drop_code(text: str) -> str:
    """Return a text without its fenced pieces of code; one that is never closed stays."""
    kept: list[str] = []
    start, fence = 0, ""
    for line in text.split("\n"):
        closed = _CLOSED.fullmatch(line) if fence else None
        if closed is not None and closed[1].startswith(fence):
            del kept[start:]
            fence = ""
            continue
        opened = None if fence else _OPENED.fullmatch(line)
        if opened is not None:
            start, fence = len(kept), opened[1]
        kept.append(line)
    return "\n".join(kept).strip() or text
