"""`import clew` loads nothing that only one adapter, screen or command needs."""

import subprocess
import sys

HEAVY = (
    "aiohttp",
    "argparse",
    "botocore",
    "genai_prices",
    "pydantic",
    "starlette",
    "textual",
    "turbohtml",
    "xllamacpp",
)


def test_import_clew_loads_no_heavy_package() -> None:
    code = "import sys, clew; print(*sys.modules, sep='\\n')"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(child.stdout.split())

    assert "clew" in loaded
    assert loaded.isdisjoint(HEAVY)
