"""Write the reference: `python -m scripts.reference`."""

import sys
from pathlib import Path

from scripts.reference.commands import with_table
from scripts.reference.writing import pages

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "reference"
COMMANDS = DOCS / "commands.md"


def main() -> None:
    """Write every page and the table of commands; remove pages that are no longer one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = pages()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.glob("*.md"):
        if path.name not in written:
            path.unlink()
    COMMANDS.write_text(with_table(COMMANDS.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{len(written)} pages are in {FOLDER}\n")


if __name__ == "__main__":
    main()
