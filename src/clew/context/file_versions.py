"""Latest versions of the files that a session edits, so that a compaction can restore them.

A version is known if the session wrote the whole file, or read the whole file, and every later
edit can be applied to that text. A file that a shell command changed is not known until it is read
again.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from clew.context.digest.history import History
from clew.context.digest.steps.step_log import StepLog
from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.estimate import text_units
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce, Wording
from clew.context.tool_arguments import PART_KEYS, find_replacements
from clew.context.view import View
from clew.core.ids import EntryId

RESTORED_HEADING = "## Files being edited, as this session last saw them"
_SHARE = 8
"""The files take at most this part of what a compaction leaves."""
_NUMBERED = re.compile(r"^[^\S\n]*(\d+)[\t→](.*)", re.MULTILINE)
_CUT = re.compile(r"\[cut: \d+ more characters\]$", re.MULTILINE)
_REMINDER = "\n\n<system-reminder>"
_MAY_DISCARD = re.compile(
    r"\bgit (?:checkout|restore|reset|stash|clean|switch|merge|rebase|pull|revert|cherry-pick|am"
    r"|apply)\b"
)


class FileVersion(Struct, frozen=True, kw_only=True):
    """The text of one file after the last change that the session made."""

    path: str
    text: str
    place: int
    """Where in the conversation it was last edited; a larger one is newer."""
    sources: frozenset[EntryId]
    """The entries that the text was computed from."""


class RestoredFiles(Struct, frozen=True, kw_only=True):
    """What a compaction adds to its summary, and the budget that this leaves for the rest."""

    text: str
    budget: Budget

    def add_to(self, summary: WrittenSummary) -> WrittenSummary:
        """Return the summary followed by the files; an empty one stays empty."""
        if not self.text or not summary.text:
            return summary
        return replace(summary, text=f"{summary.text}\n\n{self.text}")


def find_versions(log: StepLog) -> list[FileVersion]:
    """Return the files that were edited and whose text is known, the last edited first."""
    known: dict[str, FileVersion] = {}
    edited = {change.path for step in log.list_steps(newest=0) for change in step.edits}
    for step in log.list_steps() if edited else ():
        changes = step.edits
        if step.command and _MAY_DISCARD.search(step.command):
            known.clear()
        for change in changes:
            if step.command:
                _forget(known, change.path)
            version = _apply_change(known.pop(change.path, None), step, change.path)
            if version is not None and change.kind != "delete":
                known[change.path] = version
        if not changes and step.reads and step.path in edited:
            read = _read_whole(step, known.get(step.path))
            if read is not None:
                known[step.path] = read
    return sorted(known.values(), key=lambda version: -version.place)


def _forget(known: dict[str, FileVersion], path: str) -> None:
    """Forget a file that a command changed; its path may be relative to any folder."""
    end = f"/{path.removeprefix('./')}"
    for name in [name for name in known if name == path or name.endswith(end)]:
        del known[name]


def restore_files(view: View, plan: Reduce, budget: Budget) -> RestoredFiles:
    """Choose the files that are written out again after `plan`, the last edited first.

    Each is included whole or not at all. Files that stay in the view anyway are left out.
    """
    if not plan.dropped or plan.wording is Wording.NOTICE:
        return RestoredFiles(text="", budget=budget)
    history = view.memo.get(History)
    history.follow_view(view)
    versions = find_versions(history.state.steps)
    if not versions:
        return RestoredFiles(text="", budget=budget)
    gone = plan.dropped_ids | {change.entry_id for change in plan.replaced}
    staying = {item.entry_id for item in view.items} - gone - view.originals.keys()
    room = min(budget.limit // _SHARE, plan.dropped_units // 4)
    parts: list[str] = []
    for version in versions:
        part = f"### {version.path}\n```\n{version.text.rstrip()}\n```"
        units = text_units(part)
        if units <= room and not version.sources <= staying:
            room -= units
            parts.append(part)
    if not parts:
        return RestoredFiles(text="", budget=budget)
    text = "\n\n".join([RESTORED_HEADING, *parts])
    taken = text_units(text)
    rest = replace(
        budget,
        limit=max(0, budget.limit - taken),
        summary=max(0, min(budget.summary, budget.limit - taken)),
        beside=text,
    )
    return RestoredFiles(text=text, budget=rest)


def _apply_change(version: FileVersion | None, step: ToolStep, path: str) -> FileVersion | None:
    """Return the file after a change; None if its text is not known any more."""
    if step.changes and step.creates:
        text = step.written
        sources = frozenset((step.entry_id,))
        made = FileVersion(path=path, text=text or "", place=step.place, sources=sources)
        return None if text is None else made
    edits = find_replacements(step.arguments)
    if version is None or not step.changes or not edits:
        return None
    text = version.text
    for old, new, everywhere in edits:
        count = text.count(old) if old else 0
        if count == 0 or (count > 1 and not everywhere):
            return None
        text = text.replace(old, new)
    return replace(version, text=text, place=step.place, sources=version.sources | {step.entry_id})


def _read_whole(step: ToolStep, before: FileVersion | None) -> FileVersion | None:
    """Return the file that a step read from the first to the last line, with line numbers."""
    is_part = any(step.arguments.get(key) is not None for key in PART_KEYS - {"offset"})
    if not step.answered or step.failed or is_part:
        return None
    shown = step.result.partition(_REMINDER)[0].rstrip("\n")
    first = _NUMBERED.match(shown)
    if first is None or int(first[1]) != 1:
        return None
    lines = _NUMBERED.findall(shown)
    numbers = [int(number) for number, _ in lines]
    if numbers != list(range(1, shown.count("\n") + 2)) or _CUT.search(shown):
        return None
    return FileVersion(
        path=step.path,
        text="\n".join([line for _, line in lines]) + "\n",
        place=before.place if before is not None else step.place,
        sources=frozenset((step.result_id,)),
    )
