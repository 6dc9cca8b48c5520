"""Fixtures for all tests: one event-loop backend, only loopback, PostgreSQL, slow tests."""

import gc
import ipaddress
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.stores.postgres import Server, server


def _refuse_far_addresses(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    address = arguments[1]
    if not isinstance(address, tuple):
        return
    try:
        near = ipaddress.ip_address(address[0]).is_loopback
    except ValueError:
        near = address[0] == "localhost"
    if not near:
        raise RuntimeError(f"a test tried to reach {address[0]}; only loopback is allowed")


sys.addaudithook(_refuse_far_addresses)

# What is collected lives to the end: the garbage collector need not look at it, now or later.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, of what the tests make."""
    gc.freeze()
    gc.enable()


# A shell starts background jobs with Ctrl-C ignored, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW: Mapping[str, str] = MappingProxyType(
    {
        "acp/test_editor": "imports the SDK of the protocol",
        "acp/test_process": "starts clew",
        "checkpoints/test_crash": "kills processes",
        "checkpoints/test_model": "plays long random games on a folder",
        "cli/test_control_sequences": "runs every command in a hostile folder",
        "cli/test_demo": "runs the embedded model",
        "cli/test_detach": "imports the engine of durable tasks",
        "cli/test_doctor_worktrees": "starts git",
        "cli/test_first_start": "starts clew in a terminal",
        "cli/test_hostile_start": "starts clew",
        "cli/test_keys": "starts clew",
        "cli/test_log": "starts clew",
        "cli/test_mcp": "starts servers",
        "cli/test_plugin": "starts git",
        "cli/test_print_background": "starts clew",
        "cli/test_print_commands": "starts clew",
        "cli/test_print_mode": "starts clew",
        "cli/test_resume": "starts clew",
        "cli/test_schedule": "starts processes",
        "cli/test_sessions": "starts clew",
        "cli/test_signals": "starts clew",
        "cli/test_simulate": "starts clew",
        "cli/test_simulate_ask": "starts clew",
        "cli/test_streams": "starts clew",
        "cli/test_structured_print": "starts clew",
        "compatibility/test_compatibility": "starts clew on old files",
        "conformance/test_acp": "starts programs of others",
        "conformance/test_mcp": "starts programs of others",
        "conformance/test_mcp_suite": "starts programs of others",
        "hooks/test_commands": "starts processes",
        "hooks/test_real_hooks": "starts processes",
        "importers/test_real_sessions": "reads large recordings",
        "log/test_replay": "plays long random sessions",
        "mcp/test_transports": "starts servers",
        "page/test_attacks": "starts a browser",
        "page/test_browser": "starts a browser",
        "page/test_modules": "starts a browser",
        "page/test_views": "starts a browser",
        "permissions/test_against_bash": "runs bash for every line",
        "providers/test_embedded": "runs the embedded model",
        "providers/test_recordings": "reads large recordings",
        "runtime/test_dbos_queue": "imports the engine of durable tasks",
        "runtime/test_durable_workers": "kills processes",
        "runtime/test_process_runner": "starts processes",
        "runtime/test_process_tool": "starts processes",
        "runtime/test_worktree_repositories": "starts git",
        "runtime/test_worktree_snapshots": "starts git",
        "runtime/test_worktree_work": "starts git",
        "runtime/test_worktrees": "starts git",
        "sdk/test_agent_processes": "starts processes",
        "sdk/test_durable_agent": "starts git",
        "sdk/test_hostile_folder": "makes large folders and starts git",
        "sdk/test_mcp": "starts servers",
        "sdk/test_plugin_installation": "starts git",
        "sdk/test_shutdown": "starts processes",
        "sdk/test_worktree_rules": "starts git",
        "server/test_replicas": "kills processes",
        "session/test_crashes": "kills processes",
        "session/test_faults": "starts processes",
        "session/test_faults_files": "damages large files",
        "session/test_model_based": "plays long random sessions",
        "session/test_on_llama_cpp": "runs the embedded model",
        "session/test_on_the_embedded_model": "runs the embedded model",
        "tests/test_architecture": "parses every source file",
        "tests/test_examples": "starts processes",
        "tests/test_import_is_light": "starts processes",
        "tests/test_reference": "reads every docstring",
        "tests/test_requirements": "collects every test",
        "tools/test_atomic": "kills processes",
        "tools/test_denied_paths": "starts processes",
        "tools/test_sandbox": "starts processes",
        "tui/test_plain": "starts clew in a terminal",
        "tui/test_plain_questions": "starts clew in a terminal",
        "tui/test_terminal_features": "starts clew in a terminal",
        "tui/test_terminal_sessions": "starts clew in a terminal",
    }
)
"""Test files that `make test-fast` leaves out, and why. Single tests carry the marker `slow`
themselves; tests on PostgreSQL are recognised by their name or parameter."""

SHARED_SERVER = frozenset(
    {
        "hooks/test_real_hooks",
        "providers/test_recordings",
        "runtime/test_durable_workers",
        "session/test_on_llama_cpp",
        "tests/test_architecture",
        "tests/test_requirements",
    }
)
"""Test files whose tests share what takes seconds to set up: a server, parsed sources."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out slow files before they are imported, where no test of theirs would run."""
    if config.getoption("markexpr") == "not slow" and _name_of(collection_path) in SLOW:
        return True
    return None


def _name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker and xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests, and keep tests that share an expensive server on one worker."""
    for item in items:
        name = _name_of(item.path)
        on_postgres = "postgres" in item.nodeid
        if on_postgres:
            item.add_marker(pytest.mark.slow("runs on PostgreSQL"))
            item.add_marker(pytest.mark.xdist_group("postgres"))
        elif name in SLOW:
            item.add_marker(pytest.mark.slow(SLOW[name]))
        if name in SHARED_SERVER:
            item.add_marker(pytest.mark.xdist_group(name))


# The same examples on every machine, however slow it is: a failure here is a failure anywhere.
settings.register_profile(
    "clew",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fast", settings.get_profile("clew"), max_examples=15)
settings.load_profile("clew")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Run one PostgreSQL server for all tests that need it."""
    with server() as running:
        yield running
