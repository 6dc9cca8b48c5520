"""MCP by the official conformance suite: every scenario of both sides that is not about OAuth.

`make conformance` installs the suite and runs this; otherwise everything here is skipped. Not run
are the scenarios of optional extensions (tasks, skills, further logins): Clew has none of them.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.conformance.installed import HOME, NEXT, RELEASE, list_scenarios, run_suite
from tests.conformance.suite_server import serve_memory, serve_suite

OLDER, CURRENT = "2025-11-25", "2026-07-28"
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("TOL-6"),
    # The suite tests log messages and sampling, which the SDK calls deprecated.
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
    pytest.mark.skipif(not HOME.is_dir(), reason="make conformance installs what this needs"),
]
CLIENT = {
    (RELEASE, OLDER): [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
    ],
    (NEXT, CURRENT): [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ],
}
SCHEMA = "json-schema-2020-12-preservation"
"""The only one that fails in part: `test_a_schema_loses_what_providers_refuse` says why."""


async def run_client(suite: str, version: str, scenario: str) -> tuple[int, str]:
    command = f"{sys.executable} {Path(__file__).with_name('mcp_client.py')}"
    chosen = ("--spec-version", version) if suite == NEXT else ()
    return await run_suite(suite, "client", "--scenario", scenario, *chosen, "--command", command)


@pytest.mark.parametrize(
    ("suite", "version", "scenario"),
    [(suite, version, name) for (suite, version), names in CLIENT.items() for name in names],
)
async def test_the_client_passes_a_scenario(suite: str, version: str, scenario: str) -> None:
    code, printed = await run_client(suite, version, scenario)

    assert code == 0, printed


async def test_a_schema_loses_what_providers_refuse() -> None:
    """APIs of models refuse `$schema` and forms at the top of a schema; the rest arrives."""
    _, printed = await run_client(NEXT, CURRENT, SCHEMA)

    failed = set(re.findall(r"\[([a-z0-9$-]+) *\] FAILURE", printed, re.IGNORECASE))
    assert failed == {
        "json-schema-2020-12-client-$schema-preserved",
        "sep-2106-client-composition-keywords-preserved",
    }, printed


@pytest.mark.parametrize(("suite", "version"), CLIENT)
async def test_no_client_scenario_is_left_out(suite: str, version: str) -> None:
    listed = await list_scenarios(suite, "Client", version)

    without_logins = {name for name in listed if not name.startswith("auth/")}
    assert without_logins - {SCHEMA} == set(CLIENT[suite, version])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("suite", "version"), [(RELEASE, OLDER), (NEXT, OLDER), (NEXT, CURRENT)])
async def test_the_server_passes_every_scenario(suite: str, version: str) -> None:
    listed = await list_scenarios(suite, "Server", version)

    async with serve_suite() as url:
        code, printed = await run_suite(
            suite, "server", "--url", url, "--suite", "all", "--spec-version", version
        )

    summary = printed.partition("=== SUMMARY ===")[2]
    passed = set(re.findall(r"^✓ (\S+): ", summary, re.MULTILINE))
    assert passed == listed, printed
    assert (code, "✗" in summary) == (0, False), printed


@pytest.mark.parametrize(
    ("suite", "version", "scenario"),
    [
        (RELEASE, OLDER, "server-initialize"),
        (RELEASE, OLDER, "ping"),
        (RELEASE, OLDER, "tools-list"),
        (RELEASE, OLDER, "dns-rebinding-protection"),
        (NEXT, OLDER, "server-session-lifecycle"),
        (NEXT, CURRENT, "tools-list"),
        (NEXT, CURRENT, "sep-2164-resource-not-found"),
        (NEXT, CURRENT, "http-header-validation"),
        (NEXT, CURRENT, "input-required-result-unsupported-methods"),
    ],
)
async def test_clew_mcp_serve_passes_what_needs_no_tool_of_the_suite(
    suite: str, version: str, scenario: str
) -> None:
    async with serve_memory() as url:
        code, printed = await run_suite(
            suite, "server", "--url", url, "--scenario", scenario, "--spec-version", version
        )

    assert code == 0, printed
