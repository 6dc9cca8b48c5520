"""Looking for models: keys in the environment, servers on this machine, the embedded one."""

import http.client
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clew.cli.doctor_findings import Finding, Level, Machine
from clew.core.errors import ConfigError
from clew.providers.embedded.model_file import model_path, verify
from clew.providers.profiles import PROFILES
from clew.providers.registry import FAMILIES, ollama_address

_ANSWER_SECONDS = 1.0
_MOST_BYTES = 1_000_000
_SHOWN_MODELS = 5
_SUGGESTED = "ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY"


def local_servers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return where the servers are that people run on their own machine, or are said to be."""
    usual = {name: PROFILES[name].base_url for name in ("lm_studio", "ollama", "llama_cpp")}
    if host := environ.get("OLLAMA_HOST"):
        with suppress(ConfigError):
            usual["ollama"] = ollama_address(host)
    return usual


def check_keys(machine: Machine) -> Iterator[Finding]:
    """Look which providers have a key in the environment; its value is shown nowhere."""
    users: dict[str, list[str]] = {}
    for family in FAMILIES.values():
        for name in family.key_names:
            if machine.environ.get(name):
                users.setdefault(name, []).append(family.name)
    if users:
        told = ", ".join(f"{name} for {' and '.join(who)}" for name, who in users.items())
        yield Finding(name="keys", level=Level.OK, text=f"set are {told}")
    else:
        yield Finding(
            name="keys",
            level=Level.NOTE,
            text="no key of a provider is set",
            remedy=f"set {_SUGGESTED}, start a local server, or use the embedded model",
        )


def check_server(name: str, machine: Machine) -> Iterator[Finding]:
    """Look whether a model server answers on this machine."""
    address = machine.servers[name]
    host = urlsplit(address).netloc
    try:
        status, body = _get(f"{address}/models")
    except (OSError, http.client.HTTPException) as error:
        refused = isinstance(error, ConnectionRefusedError)
        why = "nothing listens" if refused else f"no answer ({type(error).__name__})"
        yield Finding(
            name=name,
            level=Level.NOTE,
            text=f"{why} at {host}",
            remedy="start its server, if you want to use it",
        )
        return
    models = _models(body)
    if models is None:
        text = f"something answers at {host} that lists no models (status {status})"
        yield Finding(name=name, level=Level.NOTE, text=text)
        return
    shown = ", ".join(models[:_SHOWN_MODELS]) or "none is loaded"
    more = f" and {len(models) - _SHOWN_MODELS} more" if len(models) > _SHOWN_MODELS else ""
    yield Finding(name=name, level=Level.OK, text=f"answers at {host} with models: {shown}{more}")


def check_embedded(machine: Machine) -> Iterator[Finding]:
    """Look whether the embedded model can be run."""
    if importlib.util.find_spec("xllamacpp") is None:
        yield Finding(
            name="embedded",
            level=Level.MISSING,
            text="the part that runs the embedded model is not installed",
            remedy="pip install 'clew[embedded]'",
        )
    path = model_path(machine.environ)
    try:
        verify(path)
    except ConfigError as error:
        yield Finding(name="embedded", level=Level.MISSING, text=str(error))
    else:
        yield Finding(name="embedded", level=Level.OK, text=f"the model is at {path}")


def _get(address: str) -> tuple[int, bytes]:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=_ANSWER_SECONDS
    )
    try:
        connection.request("GET", parts.path)
        reply = connection.getresponse()
        return reply.status, reply.read(_MOST_BYTES)
    finally:
        connection.close()


def _models(body: bytes) -> list[str] | None:
    """Return the names in a list of models; None when it is none."""
    try:
        found: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("data", ""), list | None):
        return None
    listed = found["data"] or []
    return [str(one.get("id", "?")) for one in listed if isinstance(one, dict)]
