"""Writes plugins for tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_plugin(
    root: Path, manifest: Mapping[str, Any] | str | None, files: Mapping[str, Any] | None = None
) -> Path:
    """Write a plugin; a text is written as it is, anything else as JSON. Returns its folder."""
    root.mkdir(parents=True, exist_ok=True)
    everything = dict(files or {})
    if manifest is not None:
        everything[".claude-plugin/plugin.json"] = manifest
    for name, content in everything.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return root


def command(text: str, **fields: str) -> str:
    """Return the text of a command, an agent or a skill with its frontmatter."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", text])


def hook(line: str, event: str = "SessionStart") -> dict[str, Any]:
    """Return the content of `hooks.json` with one command."""
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": line}]}]}}
