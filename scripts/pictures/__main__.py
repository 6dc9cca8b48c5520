"""Record the pictures of README and docs: `python -m scripts.pictures`.

With `--embedded`, record only the one that needs the embedded model.
"""

import sys
from pathlib import Path

import anyio

from scripts.pictures.embedded import NAME, record_embedded
from scripts.pictures.scenes import record_pictures

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"


async def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    if "--embedded" in sys.argv[1:]:
        _write(NAME, await record_embedded())
        return
    async for name, picture in record_pictures():
        _write(name, picture)


def _write(name: str, picture: str) -> None:
    (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")
    sys.stdout.write(f"{FOLDER / name}.svg\n")


if __name__ == "__main__":
    anyio.run(main)
