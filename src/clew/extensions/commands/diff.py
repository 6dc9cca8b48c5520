"""The command /diff: what a session changed in files."""

import os
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from clew.checkpoints.values import FileVersions
from clew.core.errors import ConfigError, SessionError
from clew.core.file_change import FileChange
from clew.core.redaction import redact
from clew.core.text import one_line, pluralize
from clew.extensions.commands.arguments import Builtin, build_result
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.session.rewind import list_changes

_MOST_LINES = 5_000
_MOST_BYTES = 2_000_000
_SAMPLE = 8_192
_PATH = 200


async def _diff(host: CommandHost, arguments: str) -> CommandResult:
    try:
        versions = await list_changes(host.session.state)
    except ConfigError as error:
        raise SessionError("this session keeps no copies of files to compare with") from error
    values = host.session.state.tool_context.redact_values
    found = await to_thread.run_sync(_compare_all, versions, host.cwd, arguments, values)
    if not found:
        where = f" in {one_line(arguments, _PATH)}" if arguments else ""
        return build_result([f"this session has changed no files{where}"], files=[], diff="")
    lines = [line for _, text in found for line in text.split("\n")]
    shown = lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        rest = f"… {len(lines) - _MOST_LINES:,} more lines; /diff PATH shows one file or folder"
        shown.append(rest)
    changes = [change for change, _ in found]
    added, removed = sum(one.added for one in changes), sum(one.removed for one in changes)
    shown.append(f"{pluralize(len(changes), 'file')} changed, +{added} -{removed}")
    files = [
        {"path": one.path, "added": one.added, "removed": one.removed, "created": one.created}
        for one in changes
    ]
    return build_result(shown, files=files, diff="\n".join(lines))


def _compare_all(
    versions: Sequence[FileVersions], cwd: Path, wanted: str, values: tuple[str, ...] | None
) -> list[tuple[FileChange, str]]:
    """Return the change of each file below `wanted`, and its text without secrets."""
    place = cwd / Path(wanted).expanduser() if wanted else None
    found: list[tuple[FileChange, str]] = []
    for one in versions:
        if place is not None and not Path(one.path).is_relative_to(os.path.realpath(place)):
            continue
        change, text = _compare(one, _shorten(one.path, cwd))
        found.append((change, text if values is None else redact(text, extra_values=values)))
    return sorted(found, key=lambda pair: pair[0].path)


def _shorten(path: str, cwd: Path) -> str:
    root = os.path.realpath(cwd)
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _compare(one: FileVersions, name: str) -> tuple[FileChange, str]:
    from clew.tools.builtin.diff import compare  # noqa: PLC0415 - few sessions ask for it

    empty = FileChange(path=name, added=0, removed=0, hunks=(), created=one.before is None)
    if one.note:
        return empty, f"{name}: {one.note}"
    old, new = one.before or b"", one.after or b""
    if max(len(old), len(new)) > _MOST_BYTES or b"\0" in old[:_SAMPLE] + new[:_SAMPLE]:
        return empty, f"{name}: binary or very large, {len(old):,} → {len(new):,} bytes"
    change = compare(
        old.decode(errors="replace"),
        new.decode(errors="replace"),
        name,
        created=one.before is None,
    )
    text = change.diff or f"{name}: {'created' if one.before is None else 'removed'}, empty"
    if one.before is None:
        text = text.replace(f"--- a/{name}", "--- /dev/null", 1)
    if one.after is None:
        text = text.replace(f"+++ b/{name}", "+++ /dev/null", 1)
    return change, text


DIFF_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="diff",
            description="show what this session changed in files",
            argument_hint="[path]",
        ),
        _diff,
    ),
)
