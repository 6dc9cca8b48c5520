"""Read: a stretch of a text file, with line numbers."""

from typing import Annotated

import anyio.to_thread
from msgspec import Meta

from clew.core.access import Risk
from clew.tools.builtin.files import Unusable, cut, decode, failure, lines_of, load, resolve
from clew.tools.builtin.ledger import FileLedger
from clew.tools.function import tool
from clew.tools.protocol import Place, Tool, ToolOutput

DEFAULT_LINES = 2_000


def read_tool(ledger: FileLedger) -> Tool:
    """Make the Read tool; what it reads is noted in `ledger`."""

    @tool(name="Read", risk=Risk.INSPECT, target="file_path", target_is_path=True)
    async def read(
        file_path: str,
        place: Place,
        offset: Annotated[int, Meta(ge=0)] = 1,
        limit: Annotated[int, Meta(ge=1)] = DEFAULT_LINES,
    ) -> ToolOutput:
        """Read a text file. Each line comes with its number and a tab before it, which are
        not part of the file. Give offset and limit to read a piece of a long file.

        Args:
            file_path: The file.
            place: Where the call runs.
            offset: The first line to read, counted from 1.
            limit: How many lines to read.
        """  # noqa: D205
        return await anyio.to_thread.run_sync(
            _read, ledger, file_path, place, (max(offset, 1), limit), abandon_on_cancel=True
        )

    return read


def _read(ledger: FileLedger, file_path: str, place: Place, part: tuple[int, int]) -> ToolOutput:
    path = resolve(file_path, place)
    try:
        data = load(path, file_path)
        file = decode(data, file_path)
    except Unusable as error:
        return failure(str(error))
    ledger.note(path, data)
    lines = lines_of(file.text)
    first, limit = part
    if not lines:
        return ToolOutput(text=f"[{file_path} is empty]")
    if first > len(lines):
        return failure(f"{file_path} has only {len(lines)} lines; line {first} is past its end.")
    shown = lines[first - 1 : first - 1 + limit]
    text = "\n".join(f"{number:>6}\t{cut(line)}" for number, line in enumerate(shown, first))
    last = first + len(shown) - 1
    notes = []
    if last < len(lines):
        notes.append(f"lines {first}-{last} of {len(lines)}; go on with offset={last + 1}")
    if file.encoding == "latin-1":
        notes.append("not valid UTF-8, shown as Latin-1")
    elif file.encoding != "utf-8":
        notes.append(f"encoded as {file.encoding}")
    return ToolOutput(
        text="\n".join([text, *(f"[{note}]" for note in notes)]),
        display=f"{file_path}: {len(shown)} lines",
        data={"path": file_path, "first": first, "last": last, "total": len(lines)},
    )
