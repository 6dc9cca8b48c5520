"""Write the reference: `python -m scripts.reference`."""

import sys
from pathlib import Path

from scripts.reference.markdown import pages
from scripts.reference.tables import update_commands, update_events, update_routes

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "reference"
TABLES = {
    DOCS / "commands.md": update_commands,
    DOCS / "sdk.md": update_events,
    DOCS / "server.md": update_routes,
}
"""The guides with generated tables."""


def main() -> None:
    """Write every page and table; delete pages that no longer exist."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.glob("*.md"):
        if path.name not in written:
            path.unlink()
    for path, update in TABLES.items():
        path.write_text(update(path.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{len(written)} pages are in {FOLDER}\n")


if __name__ == "__main__":
    main()
