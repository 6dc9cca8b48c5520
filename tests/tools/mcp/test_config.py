"""Entries of `mcpServers`: what they mean, and what of them is a secret."""

from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import ConfigError
from clew.tools.mcp.config import ServerConfig, parse_server
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.stdio import choose_environment

pytestmark = pytest.mark.req("TOL-6")

ENVIRON = {
    "ACCESS": "q7Xz19Lm42Kd",
    "DB_PASSWORD": "correct-horse",
    "HOME": "/home/ada1",
    "STAGE": "production",
}


def parse(**entry: Any) -> ServerConfig:
    return parse_server("one", entry, ENVIRON, trusted=True, origin="")


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "serve", "args": ["--key", "${ACCESS}", "--db=${DB_PASSWORD}", "${HOME}"]},
        {"url": "https://example.com/mcp?key=${ACCESS}&db=${DB_PASSWORD}&home=${HOME}"},
    ],
)
@pytest.mark.anyio
async def test_values_of_variables_are_neither_shown_nor_passed_on(entry: dict[str, Any]) -> None:
    config = parse(**entry)
    pool = McpPool([config], cwd=Path(), environ={})
    heard: list[str] = []
    pool.subscribe(heard.append)

    pool._warn("it last wrote: no access with q7Xz19Lm42Kd and correct-horse in /home/ada1")

    (status,) = pool.list_status()
    assert "q7Xz19Lm42Kd" not in status.target
    assert "correct-horse" not in status.target
    assert "q7Xz19Lm42Kd" in config.url + " ".join(config.args)
    assert set(config.find_secrets()) == {"q7Xz19Lm42Kd", "correct-horse"}
    assert "q7Xz19Lm42Kd" not in heard[0]
    assert "correct-horse" not in heard[0]
    assert heard[0].endswith("/home/ada1")


def test_a_variable_that_is_no_secret_is_not_redacted() -> None:
    assert parse(command="serve", args=["${STAGE}", "${HOME}"]).find_secrets() == ()


def test_an_unknown_type_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="one has an unknown type; write one of stdio, http"):
        parse(type="carrier-pigeon", command="serve")


def test_a_server_gets_what_the_network_needs_and_no_password() -> None:
    environ = {
        "PATH": "/bin",
        "SSL_CERT_FILE": "/etc/cert.pem",
        "https_proxy": "http://proxy.test:3128",
        "HTTP_PROXY": "http://ada:pass@proxy.test:3128",
        "OPENAI_API_KEY": "key",
    }

    chosen = choose_environment(environ, {"LOG": "debug", "PATH": "/own"})

    assert chosen == {
        "PATH": "/own",
        "SSL_CERT_FILE": "/etc/cert.pem",
        "https_proxy": "http://proxy.test:3128",
        "LOG": "debug",
    }
