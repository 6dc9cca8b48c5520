"""Jupyter notebooks as text: their cells in order, with what they printed."""

from typing import Any

import msgspec
from msgspec import Struct

_LONGEST_OUTPUT = 10_000


class _Cell(Struct):
    cell_type: str
    source: str | list[str] = ""
    id: str = ""
    outputs: list[dict[str, Any]] = []


class _Notebook(Struct):
    cells: list[_Cell]


def readable(data: bytes) -> str | None:
    """Return a notebook as text, or None if the bytes are no notebook."""
    try:
        notebook = msgspec.json.decode(data, type=_Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return "\n".join(_cell(number, cell) for number, cell in enumerate(notebook.cells, 1))


def _cell(number: int, cell: _Cell) -> str:
    name = f" {cell.id}" if cell.id else ""
    parts = [f"# cell {number}{name} ({cell.cell_type})", _joined(cell.source)]
    printed = [text for output in cell.outputs if (text := _output(output))]
    if printed:
        parts += [f"# output of cell {number}", *printed]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        text = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
    elif "text" in output:
        text = _joined(output["text"])
    else:
        text = _shown(output.get("data"))
    if len(text) > _LONGEST_OUTPUT:
        return f"{text[:_LONGEST_OUTPUT]}\n[cut: {len(text) - _LONGEST_OUTPUT} more characters]"
    return text


def _shown(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    if "text/plain" in data and not any(kind.startswith("image/") for kind in data):
        return _joined(data["text/plain"])
    return f"[{', '.join(map(str, data))}]" if data else ""


def _joined(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
