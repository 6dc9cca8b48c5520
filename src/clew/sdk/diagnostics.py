"""Find out what works on this machine, what is missing, and what to do about it.

`diagnose` runs all checks: those of `clew.sdk.system_checks`, and those of models here.
"""

import http.client
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.redaction import redact
from clew.core.text import pluralize
from clew.extensions.user_tools import shorten_origins
from clew.files.entry_points import find_installed
from clew.providers.embedded.model_file import model_path, verify
from clew.providers.profiles import PROFILES, ollama_address
from clew.providers.registry import FAMILIES
from clew.sdk.folders import Homes
from clew.sdk.project_scan import load_extensions
from clew.sdk.session_parts import RESERVED_TOOLS
from clew.sdk.settings import load_project_settings
from clew.sdk.system_checks import (
    Check,
    Finding,
    Level,
    Machine,
    check_folders,
    check_programs,
    check_sandbox,
    check_settings,
    check_sqlite,
    check_store,
    check_versions,
)
from clew.sdk.worktree_checks import check_worktrees
from clew.tools.builtin import builtin_tools

__all__ = ["Check", "Finding", "Level", "Machine", "diagnose", "this_machine"]

_TIMEOUT = 1.0
_MAX_BYTES = 1_000_000
_MAX_MODELS = 5
_SUGGESTED_KEYS = "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"


def this_machine(cwd: Path, environ: Mapping[str, str] | None = None) -> Machine:
    """Return this machine, as seen from the folder `cwd`."""
    environ = os.environ if environ is None else environ
    homes = Homes.of(environ)
    return Machine(
        cwd=cwd,
        user_home=homes.user,
        clew_home=homes.clew,
        environ=environ,
        servers=_server_addresses(environ),
    )


def diagnose(machine: Machine, extra: Sequence[Check] = ()) -> list[Finding]:
    """Run all checks at the same time; changes nothing, and no finding contains a secret.

    Args:
        machine: What to check.
        extra: Checks of the client, such as one of the terminal; they come last.
    """
    checks: list[Check] = [
        check_versions,
        check_folders,
        check_settings,
        check_sqlite,
        check_store,
        check_keys,
        *(partial(check_server, name) for name in machine.servers),
        check_embedded,
        check_extensions,
        check_programs,
        check_sandbox,
        check_worktrees,
        *extra,
    ]
    with ThreadPoolExecutor(len(checks)) as pool:
        found = pool.map(partial(_run_check, machine), checks)
        return [_redact(finding) for findings in found for finding in findings]


def _run_check(machine: Machine, check: Check) -> Sequence[Finding]:
    try:
        return list(check(machine))
    except OSError as error:
        return [Finding(name="doctor", level=Level.NOTE, text=f"a check failed: {error}")]


def _redact(finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, text=redact(finding.text))


def _server_addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the usual addresses of local model servers; OLLAMA_HOST changes one of them."""
    addresses = {name: PROFILES[name].base_url for name in ("lm_studio", "ollama", "llama_cpp")}
    if host := environ.get("OLLAMA_HOST"):
        with suppress(ConfigError):
            addresses["ollama"] = ollama_address(host)
    return addresses


def check_keys(machine: Machine) -> Iterator[Finding]:
    """Check which providers have an API key in the environment; its value is never shown."""
    users: dict[str, list[str]] = {}
    for family in FAMILIES.values():
        for name in family.key_names:
            if machine.environ.get(name):
                users.setdefault(name, []).append(family.name)
    if users:
        keys = ", ".join(f"{name} for {' and '.join(who)}" for name, who in users.items())
        yield Finding(name="keys", level=Level.OK, text=f"found {keys}")
    else:
        yield Finding(
            name="keys",
            level=Level.NOTE,
            text="no API key is set",
            remedy=f"set {_SUGGESTED_KEYS}, start a local server, or use the embedded model",
        )


def check_server(name: str, machine: Machine) -> Iterator[Finding]:
    """Check whether a model server answers on this machine."""
    address = machine.servers[name]
    host = urlsplit(address).netloc
    try:
        status, body = _get(f"{address}/models")
    except (OSError, http.client.HTTPException) as error:
        refused = isinstance(error, ConnectionRefusedError)
        reason = "not running" if refused else f"no answer ({type(error).__name__})"
        yield Finding(
            name=name,
            level=Level.NOTE,
            text=f"{reason} at {host}",
            remedy="start the server to use it",
        )
        return
    models = _parse_models(body)
    if models is None:
        text = f"a server answers at {host} but lists no models (status {status})"
        yield Finding(name=name, level=Level.NOTE, text=text)
        return
    shown = ", ".join(models[:_MAX_MODELS]) or "none loaded"
    more = f" and {len(models) - _MAX_MODELS} more" if len(models) > _MAX_MODELS else ""
    yield Finding(name=name, level=Level.OK, text=f"running at {host}, models: {shown}{more}")


def check_embedded(machine: Machine) -> Iterator[Finding]:
    """Check whether the embedded model can run."""
    if importlib.util.find_spec("xllamacpp") is None:
        yield Finding(
            name="embedded",
            level=Level.MISSING,
            text="xllamacpp, which runs the embedded model, is not installed",
            remedy="pip install 'clew[embedded]'",
        )
    path = model_path(machine.environ)
    try:
        verify(path)
    except ConfigError as error:
        yield Finding(name="embedded", level=Level.MISSING, text=str(error))
    else:
        yield Finding(name="embedded", level=Level.OK, text=f"the model is at {path}")


def check_extensions(machine: Machine) -> Iterator[Finding]:
    """Check tools, providers and stores of the user's own; loads the tools."""
    homes = Homes(user=machine.user_home, clew=machine.clew_home)
    with suppress(ConfigError):
        loaded = load_project_settings(machine.cwd, homes, machine.environ)
        found = load_extensions(loaded, homes)
        free, warnings = found.merge(
            {*(tool.spec.name for tool in builtin_tools()), *RESERVED_TOOLS}
        )
        for name, origin in shorten_origins(free, homes.user).items():
            yield Finding(name="tools", level=Level.OK, text=f"{name} from {origin}")
        for text in (*found.problems, *warnings):
            yield Finding(name="tools", level=Level.MISSING, text=text)
        if loaded.tool_files and not loaded.accepted:
            yield Finding(
                name="tools",
                level=Level.NOTE,
                text=f"{pluralize(len(loaded.tool_files), 'file')} in .clew/tools not loaded",
                remedy="read them, then: clew config accept",
            )
    for kind in ("providers", "stores"):
        for part in find_installed(f"clew.{kind}"):
            yield Finding(name=kind, level=Level.OK, text=f"{part.name} from {part.origin}")


def _get(address: str) -> tuple[int, bytes]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", parts.path)
        reply = connection.getresponse()
        return reply.status, reply.read(_MAX_BYTES)
    finally:
        connection.close()


def _parse_models(body: bytes) -> list[str] | None:
    """Return the names in a model list; None if it is not one."""
    try:
        found: Any = decode_json(body)
    except msgspec.DecodeError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("data", ""), list | None):
        return None
    listed = found["data"] or []
    return [str(one.get("id", "?")) for one in listed if isinstance(one, dict)]
