"""The served OpenAPI document is true: schemathesis sends what it allows, and what it forbids."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from clew.sdk.server_values import BASE
from clew.server.access import AccessOptions, RequestLimits
from clew.server.access.headers import EVENT_STREAM
from clew.server.routes import ROUTES
from tests.server.places import serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("SRV-1"),
    pytest.mark.slow("sends hundreds of requests"),
]

ENDLESS = [
    BASE + route.path for route in ROUTES if route.media[0] == EVENT_STREAM or route.status == 101
]
"""Streams have no end to wait for; other tests follow them."""
KEPT_AWAY = "/(lines|simulation)$"
"""A random line could be a shell command, and each simulation takes long: these find no session."""
TOKEN = "t" * 40


async def test_schemathesis_finds_no_failure(tmp_path: Path) -> None:
    plenty = RequestLimits(failures_per_second=1e6, requests_per_second=1e6)
    access = AccessOptions(token=TOKEN, limits=plenty)
    async with serving(tmp_path, access=access) as api:
        session, other = await api.open(), await api.open()
        file = tmp_path / "schemathesis.toml"
        file.write_text(
            f"""
[parameters]
"path.session_id" = "{session}"

[[operations]]
include-path-regex = "{KEPT_AWAY}"
[operations.parameters]
"path.session_id" = "missing"

[[operations]]
include-path-regex = "sessions/.session_id.(/close)?$"
[operations.parameters]
"path.session_id" = "{other}"
"""
        )
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "--no-color"),
            *("run", f"{api.server.url}{BASE}/openapi.json", "--phases", "coverage,fuzzing"),
            *("--max-examples", "2", "--seed", "1", "--generation-deterministic", "--no-shrink"),
            *("--header", f"Authorization: Bearer {TOKEN}"),
            *("--request-timeout", "60", "--warnings", "off"),
        ]
        for path in ENDLESS:
            command += ["--exclude-path", path]
        with anyio.fail_after(110):
            done = await anyio.run_process(
                command, check=False, stderr=subprocess.STDOUT, cwd=tmp_path
            )

    assert done.returncode == 0, done.stdout.decode()
