"""The image and the compose file: no root, no build tools, no open database, no password.

No container can be built where there is no Docker daemon, so these tests read the files; hadolint
checks the Dockerfile where it is installed.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from clew.cli.arguments import parse_arguments
from clew.sdk.server_values import BASE
from clew.server.routes import ROUTES

pytestmark = pytest.mark.req("SRV-3")

ROOT = Path(__file__).parent.parent
BUILD_TOOLS = re.compile(r"\b(?:gcc|g\+\+|make|build-essential|pip install|curl|wget|-dev)\b")


def _read_stages() -> list[list[str]]:
    """Return the instructions of each stage of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    stages: list[list[str]] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        if line.startswith("FROM "):
            stages.append([])
        stages[-1].append(re.sub(r"\s+", " ", line))
    return stages


def _read_services() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    services: dict[str, Any] = document["services"]
    return services


def test_the_image_runs_without_root_and_without_build_tools() -> None:
    _, final = _read_stages()

    users = [line for line in final if line.startswith("USER ")]
    assert users == ["USER 10001"]
    assert final.index("USER 10001") < next(
        place for place, line in enumerate(final) if line.startswith("ENTRYPOINT")
    )
    assert [line for line in final if BUILD_TOOLS.search(line)] == []
    assert not any(line.startswith("ADD ") for line in final)


def test_the_health_check_asks_a_route_that_needs_no_token() -> None:
    check = next(line for line in _read_stages()[-1] if line.startswith("HEALTHCHECK"))
    path = re.search(r"http://127\.0\.0\.1:8765(/[^']+)", check)

    assert path is not None
    assert path[1] in [BASE + route.path for route in ROUTES if route.open_to_all]


def test_the_command_of_the_image_is_one_that_clew_understands() -> None:
    command = next(line for line in _read_stages()[-1] if line.startswith("CMD"))

    arguments = parse_arguments(re.findall(r'"([^"]+)"', command))

    assert (arguments.command, arguments.host, arguments.port) == ("serve", "0.0.0.0", 8765)


def test_the_image_gets_only_the_files_that_it_needs() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = re.findall(r"COPY (?!--from)([^\n]+)", "\n".join(_read_stages()[0]))
    names = [name for line in copied for name in line.split()[:-1]]

    assert lines[1] == "*"
    assert {f"!{name}" for name in names} == {line for line in lines if line.startswith("!")}
    assert all((ROOT / name).exists() for name in names)


def test_compose_publishes_the_server_to_this_machine_only_and_the_database_to_nobody() -> None:
    services = _read_services()

    assert services["clew"]["ports"] == ["127.0.0.1:8765:8765"]
    assert "ports" not in services["db"]
    assert services["clew"]["cap_drop"] == ["ALL"]
    assert services["clew"]["read_only"] is True
    assert services["clew"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert "healthcheck" in services["db"]


def test_both_replicas_of_compose_are_reached_by_their_own_names() -> None:
    services = _read_services()

    for name in ("clew", "clew-2"):
        arguments = parse_arguments(services[name]["command"])
        assert (arguments.command, arguments.replica) == ("serve", f"{name}:8766")
        assert services[name]["read_only"] is True
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])


def test_compose_holds_no_password() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")

    assert re.findall(r"PASSWORD: (?!\$\{POSTGRES_PASSWORD:\?)", text) == []
    assert re.findall(r"://\w+:(?!\$\{POSTGRES_PASSWORD:\?)", text) == []


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        ["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")
