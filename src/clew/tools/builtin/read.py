"""The Read tool: returns lines of a text file or a notebook, or an image."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
import msgspec
from msgspec import Meta, Struct

from clew.context.estimate import pixel_size
from clew.core.json_text import decode_json
from clew.core.messages import Image
from clew.core.permissions import Risk, TargetKind
from clew.core.redaction.marks import RedactedText
from clew.core.text import pluralize
from clew.tools.builtin.file_states import FileStates
from clew.tools.builtin.files import (
    MAX_BYTES,
    TextFile,
    ToolFailure,
    decode,
    examine,
    failure,
    load,
    load_lines,
    resolve,
    split_lines,
    truncate_line,
)
from clew.tools.builtin.redaction_marks import hide_file
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput

DEFAULT_LINES = 2_000
MAX_IMAGE_BYTES = 3_750_000
"""Providers accept images of up to 5 MB in base64."""
_IMAGE_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_LONGEST_OUTPUT = 10_000
_MAX_HIDDEN = 4_000_000
"""The most characters to redact as a whole; the session redacts the output anyway."""


class FilePart(Struct, frozen=True, kw_only=True):
    """The part of a file to read."""

    path: Path
    shown: str
    """The path as the model wrote it."""
    first: int
    limit: int


class _Cell(Struct):
    cell_type: str
    source: str | list[str] = ""
    id: str = ""
    outputs: list[dict[str, Any]] = []


class _Notebook(Struct):
    cells: list[_Cell]


def read_tool(states: FileStates) -> Tool:
    """Make the Read tool; it records the files that it reads in `states`."""

    @tool(name="Read", risk=Risk.INSPECT, target="file_path", kind=TargetKind.PATH)
    async def read(
        file_path: str,
        context: ToolContext,
        offset: Annotated[int, Meta(ge=0)] = 1,
        limit: Annotated[int, Meta(ge=1)] = DEFAULT_LINES,
    ) -> ToolOutput:
        """Read a text file, a notebook or an image (PNG, JPEG, GIF, WebP). Each line of text
        starts with its number and a tab, which are not part of the file. Use offset and limit
        to read a part of a long file.

        Args:
            file_path: The file.
            context: Where the call runs.
            offset: The first line to read, counted from 1.
            limit: The number of lines to read.
        """  # noqa: D205
        try:
            path = resolve(file_path, context)
        except ToolFailure as error:
            return failure(str(error))
        part = FilePart(path=path, shown=file_path, first=max(offset, 1), limit=limit)
        return await anyio.to_thread.run_sync(_read, states, part, context, abandon_on_cancel=True)

    def find_failure(
        file_path: str,
        context: ToolContext,
        offset: int = 1,  # noqa: ARG001 - the same arguments as those of the tool
        limit: int = DEFAULT_LINES,  # noqa: ARG001
    ) -> ToolOutput | None:
        try:
            examine(resolve(file_path, context), file_path)
        except ToolFailure as error:
            return failure(str(error))
        return None

    read.find_failure = find_failure
    return read


def _read(states: FileStates, part: FilePart, context: ToolContext) -> ToolOutput:
    try:
        if examine(part.path, part.shown).st_size > MAX_BYTES:
            return _read_large(part)
        data = load(part.path, part.shown, context.documents)
        if kind := find_image_type(data):
            states.note(part.path, data)
            return _image(part, data, kind)
        if data.startswith(b"%PDF-"):
            return failure(
                f"{part.shown} is a PDF, which Read cannot show. Convert it to text with Bash, "
                "for example: pdftotext -layout FILE -"
            )
        file = decode(data, part.shown)
    except ToolFailure as error:
        return failure(str(error))
    states.note(part.path, data)
    cells = render_notebook(data) if part.path.suffix == ".ipynb" else None
    return _text(part, file, cells, context)


def find_image_type(data: bytes) -> str:
    """Return the media type of an image that models accept, by its first bytes; else empty."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _IMAGE_TYPES.items() if data.startswith(start)), "")


def _image(part: FilePart, data: bytes, kind: str) -> ToolOutput:
    size = pixel_size(data)
    measure = f"{size[0]}×{size[1]} pixels, " if size else ""
    facts = f"{part.shown}: {kind}, {measure}{len(data):,} bytes"
    if len(data) > MAX_IMAGE_BYTES:
        return failure(f"{facts}. Models accept at most {MAX_IMAGE_BYTES:,}: make a smaller copy.")
    return ToolOutput(
        text=f"[{facts}]",
        images=(Image(media_type=kind, data=data),),
        data={"path": part.shown, "media_type": kind, "bytes": len(data)},
    )


def _text(part: FilePart, file: TextFile, cells: str | None, context: ToolContext) -> ToolOutput:
    # Redacted as a whole: a part of it may not show that it belongs to a private key, and Edit
    # must find the same marks.
    text = file.text if cells is None else cells
    whole = hide_file(text, context) if len(text) <= _MAX_HIDDEN else RedactedText(text)
    lines = _number_lines(whole)
    if not lines:
        return ToolOutput(text=f"[{part.shown} is empty]")
    total = lines[-1].last
    if part.first > total:
        return failure(
            f"{part.shown} has only {pluralize(total, 'line')}; line {part.first} is past the end."
        )
    end = part.first + part.limit
    shown = [line for line in lines if line.last >= part.first and line.number < end]
    last = shown[-1].last
    notes = []
    if last < total:
        notes.append(f"lines {part.first}-{last} of {total}; continue with offset={last + 1}")
    if cells is not None:
        notes.append("a notebook as text; in the file each cell is JSON")
    return _show_lines(part, shown, (*notes, *_note_encoding(file)), total=total)


def _read_large(part: FilePart) -> ToolOutput:
    data, more = load_lines(part.path, part.shown, first=part.first, limit=part.limit)
    file = decode(data, part.shown)
    lines = _number_lines(RedactedText(file.text), part.first)
    if not lines:
        return failure(f"{part.shown} has fewer than {part.first} lines.")
    last = lines[-1].last
    size = part.path.stat().st_size
    note = f"lines {part.first}-{last} of a file of {size:,} bytes"
    if more:
        note += f"; continue with offset={last + 1}, or search it with Grep"
    return _show_lines(part, lines, (note, *_note_encoding(file)), total=None)


def _note_encoding(file: TextFile) -> Iterator[str]:
    if file.encoding == "latin-1":
        yield "not valid UTF-8, shown as Latin-1"
    elif file.encoding != "utf-8":
        yield f"encoded as {file.encoding}"


class _Line(Struct, frozen=True):
    """A line to show; a mark may stand for several lines of the file."""

    number: int
    last: int
    text: str


def _number_lines(file: RedactedText, first: int = 1) -> list[_Line]:
    """Return the lines with their numbers in the original file."""
    swallowed = Counter[int]()
    for hidden in file.hidden:
        if more := hidden.original.count("\n"):
            swallowed[file.text.count("\n", 0, hidden.start)] += more
    lines, number = list[_Line](), first
    for index, line in enumerate(split_lines(file.text)):
        last = number + swallowed[index] if swallowed else number
        lines.append(_Line(number, last, line))
        number = last + 1
    return lines


def _show_lines(
    part: FilePart, lines: list[_Line], notes: tuple[str, ...], *, total: int | None
) -> ToolOutput:
    numbered = (f"{line.number:>6}\t{truncate_line(line.text)}" for line in lines)
    last = lines[-1].last
    return ToolOutput(
        text="\n".join([*numbered, *(f"[{note}]" for note in notes)]),
        display=f"{part.shown}: {pluralize(last - part.first + 1, 'line')}",
        data={"path": part.shown, "first": part.first, "last": last, "total": total},
    )


def render_notebook(data: bytes) -> str | None:
    """Return the cells of a Jupyter notebook with their output as text; None if it is not one."""
    try:
        notebook = decode_json(data, type=_Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return "\n".join(_cell(number, cell) for number, cell in enumerate(notebook.cells, 1))


def _cell(number: int, cell: _Cell) -> str:
    name = f" {cell.id}" if cell.id else ""
    parts = [f"# cell {number}{name} ({cell.cell_type})", _join_lines(cell.source)]
    printed = [text for output in cell.outputs if (text := _output(output))]
    if printed:
        parts += [f"# output of cell {number}", *printed]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        text = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
    elif "text" in output:
        text = _join_lines(output["text"])
    else:
        text = _format_data(output.get("data"))
    if len(text) > _LONGEST_OUTPUT:
        return f"{text[:_LONGEST_OUTPUT]}\n[cut: {len(text) - _LONGEST_OUTPUT} more characters]"
    return text


def _format_data(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    if "text/plain" in data and not any(kind.startswith("image/") for kind in data):
        return _join_lines(data["text/plain"])
    return f"[{', '.join(map(str, data))}]" if data else ""


def _join_lines(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
