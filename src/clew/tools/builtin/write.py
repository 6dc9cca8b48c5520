"""The Write tool: creates or replaces a whole file.

A replaced file keeps its encoding, byte-order mark and line endings: the model saw none of
them, so it cannot mean to change them.
"""

from pathlib import Path

import anyio.to_thread

from clew.core.permissions import Risk, TargetKind
from clew.core.text import pluralize
from clew.tools.builtin.diff import compare, format_short
from clew.tools.builtin.file_states import FileStates
from clew.tools.builtin.files import (
    TextFile,
    ToolFailure,
    decode,
    failure,
    find_bad_path,
    load,
    resolve,
)
from clew.tools.builtin.redaction_marks import has_mark, hide_file, list_secrets, restore_secrets
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput


def write_tool(states: FileStates) -> Tool:
    """Make the Write tool; it replaces a file only if `states` knows its current content."""

    @tool(name="Write", risk=Risk.MODIFY, target="file_path", kind=TargetKind.PATH)
    async def write(file_path: str, content: str, context: ToolContext) -> ToolOutput:
        """Write a whole file, creating it and its folders if necessary. An existing file must
        have been Read before. To change a part of a file, use Edit.

        Args:
            file_path: The file.
            content: The whole content of the file.
            context: Where the call runs.
        """  # noqa: D205
        return await anyio.to_thread.run_sync(_write, states, file_path, content, context)

    def find_failure(file_path: str, content: str, context: ToolContext) -> ToolOutput | None:
        try:
            path = resolve(file_path, context)
            old = _read_current(states, path, file_path, context)
            file = decode(old, file_path) if old is not None else TextFile(text="")
            _restore(file, content, file_path, context)
        except ToolFailure as error:
            return failure(str(error))
        return None

    write.restores_secrets = True
    write.find_failure = find_failure
    write.find_problem = lambda file_path, **_: find_bad_path(file_path)
    return write


def _write(states: FileStates, file_path: str, content: str, context: ToolContext) -> ToolOutput:
    try:
        path = resolve(file_path, context)
        with states.lock(path):
            old = _read_current(states, path, file_path, context)
            file = decode(old, file_path) if old is not None else TextFile(text="")
            text = _match_line_endings(file.text, content)
            text = _restore(file, text, file_path, context)
            data, note = _encode(file, text)
            states.replace(path, data, file_path, expected=old, context=context)
    except ToolFailure as error:
        return failure(str(error))
    count = content.count("\n") + (not content.endswith("\n") and content != "")
    verb = "Created" if old is None else "Replaced"
    change = compare(file.text, text, file_path, created=old is None)
    return ToolOutput(
        text=f"{verb} {file_path} ({pluralize(count, 'line')}{note}).",
        display=format_short(change),
        data=change.data(),
    )


def _restore(file: TextFile, content: str, file_path: str, context: ToolContext) -> str:
    if not has_mark(content) or context.redact_values is None:
        return content
    return restore_secrets(content, list_secrets(hide_file(file.text, context)), file_path)


def _read_current(
    states: FileStates, path: Path, file_path: str, context: ToolContext
) -> bytes | None:
    try:
        if not path.exists():
            above = next(each for each in path.parents if each.exists())
            if not above.is_dir():
                raise ToolFailure(f"{file_path} cannot be written: {above} is not a folder.")
            return None
    except (OSError, ValueError) as error:
        raise ToolFailure(f"{file_path} cannot be written: {error}.") from error
    if path.is_dir():
        raise ToolFailure(f"{file_path} is a folder, so it cannot be written.")
    data = load(path, file_path, context.documents)
    if not states.knows(path):
        raise ToolFailure(f"{file_path} exists and was not read yet. Read it first, then write it.")
    states.check(path, data, file_path)
    return data


def _match_line_endings(old: str, new: str) -> str:
    """Convert `new` to CRLF if all lines of `old` end so and `new` has no CR."""
    crlf = old.count("\r\n")
    if crlf and crlf == old.count("\n") and "\r" not in new:
        return new.replace("\n", "\r\n")
    return new


def _encode(file: TextFile, text: str) -> tuple[bytes, str]:
    try:
        return file.encode(text), ""
    except ToolFailure:
        if file.encoding != "latin-1":
            raise
        # Latin-1 was a guess for the bytes that are now replaced.
        return TextFile(text="").encode(text), ", now UTF-8"
