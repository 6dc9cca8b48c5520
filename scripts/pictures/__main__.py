"""Record the pictures of README and docs: `python -m scripts.pictures`."""

import sys
from pathlib import Path

import anyio

from scripts.pictures.scenes import record_pictures

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"


async def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    async for name, picture in record_pictures():
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}.svg\n")


if __name__ == "__main__":
    anyio.run(main)
