"""`clew doctor`: what it finds on machines of all kinds, and what it never shows."""

import os
import socket
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import anyio
import msgspec
import pytest

from clew._version import __version__
from clew.cli.doctor import check_terminal, run_doctor
from clew.cli.subcommands import add_doctor
from clew.core.errors import ConfigError
from clew.sdk.diagnostics import Finding, Level, Machine, diagnose
from clew.tools.sandbox import Sandbox
from tests.stores import postgres

pytestmark = pytest.mark.req("CLI-1")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    return Machine(
        cwd=project,
        user_home=home,
        clew_home=home / ".clew",
        environ={"CLEW_CACHE": str(tmp_path / "cache")},
        servers={},
    )


def found(machine: Machine, name: str) -> list[Finding]:
    return [finding for finding in diagnose(machine, [check_terminal]) if finding.name == name]


def one(machine: Machine, name: str) -> Finding:
    (finding,) = found(machine, name)
    return finding


def with_environ(machine: Machine, **environ: str) -> Machine:
    return replace(machine, environ={**machine.environ, **environ})


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """Run a server on loopback that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if self.path == "/v1/models" else b"elsewhere")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def test_a_fresh_machine_works_and_nothing_is_made_on_it(machine: Machine) -> None:
    findings = diagnose(machine, [check_terminal])

    assert not [finding for finding in findings if finding.level is Level.BROKEN]
    assert not machine.clew_home.exists()
    assert list(machine.cwd.iterdir()) == []
    names = [finding.name for finding in findings]
    assert names[:5] == ["clew", "python", "folder", "disk", "settings"]
    assert {"sqlite", "keys", "embedded", "ripgrep", "git", "sandbox", "terminal"} <= set(names)


@pytest.mark.req("PRM-6")
def test_the_doctor_says_which_protection_is_active(machine: Machine) -> None:
    finding = one(machine, "sandbox")
    sandbox = Sandbox()

    if sandbox.active:
        assert finding.level is Level.OK
        assert finding.text.startswith(f"{sandbox.name} works: commands cannot reach files")
    else:
        assert finding.level is Level.MISSING
        assert "Deny rules only compare command lines" in finding.text


def test_keys_are_named_and_never_shown(machine: Machine) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9
    rich = with_environ(machine, ANTHROPIC_API_KEY=key, OPENAI_API_KEY="hidden-too")

    keys = one(rich, "keys")

    assert keys.level is Level.OK
    assert "ANTHROPIC_API_KEY for anthropic" in keys.text
    assert "OPENAI_API_KEY for openai" in keys.text
    told = msgspec.json.encode(diagnose(rich, [check_terminal])).decode()
    assert key not in told
    assert "hidden-too" not in told
    assert one(machine, "keys").level is Level.NOTE


def test_a_server_that_answers_is_listed_with_its_models(machine: Machine) -> None:
    listing = b'{"object": "list", "data": [{"id": "qwen3:8b"}, {"id": "gemma"}]}'
    with answering(listing) as address:
        finding = one(replace(machine, servers={"ollama": address}), "ollama")

    assert finding.level is Level.OK
    assert finding.text.endswith("models: qwen3:8b, gemma")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"object": "list", "data": null}', 200, "models: none loaded"),
        (b'{"data": [%s]}' % b",".join([b'{"id": "m"}'] * 9), 200, "m, m, m, m, m and 4 more"),
        (b'{"data": [1, {}]}', 200, "models: ?"),
        (b"<html>a web page</html>", 200, "lists no models (status 200)"),
        (b'{"error": "no key"}', 401, "lists no models (status 401)"),
        (b"[1]", 200, "lists no models"),
    ],
)
def test_whatever_a_server_says_is_a_line(
    machine: Machine, body: bytes, status: int, said: str
) -> None:
    with answering(body, status) as address:
        finding = one(replace(machine, servers={"llama_cpp": address}), "llama_cpp")

    assert said in finding.text


def test_silent_and_absent_servers_do_not_delay_the_result(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as gone:
            free = gone.getsockname()[1]
        servers = {f"silent{at}": f"http://127.0.0.1:{port}/v1" for at in range(3)}
        findings = diagnose(
            replace(machine, servers={**servers, "absent": f"http://127.0.0.1:{free}/v1"}),
            [check_terminal],
        )

    texts = {finding.name: finding.text for finding in findings}
    assert all("no answer (TimeoutError)" in texts[name] for name in servers)
    assert "not running" in texts["absent"]


def test_a_folder_that_others_can_read_is_noted_with_its_remedy(machine: Machine) -> None:
    machine.clew_home.mkdir(mode=0o755)
    machine.clew_home.chmod(0o755)
    noted = one(machine, "folder")
    machine.clew_home.chmod(0o700)

    assert noted.level is Level.NOTE
    assert noted.remedy == f"chmod 700 {machine.clew_home}"
    assert one(machine, "folder").level is Level.OK
    assert list(machine.clew_home.iterdir()) == []


def test_a_folder_that_cannot_be_is_broken(machine: Machine) -> None:
    machine.clew_home.write_text("a file")

    assert one(machine, "folder").level is Level.BROKEN
    beneath = replace(machine, clew_home=machine.clew_home / "deeper")
    assert one(beneath, "folder").level is Level.BROKEN


def test_settings_files_and_mistakes_are_findings(machine: Machine) -> None:
    machine.clew_home.mkdir(mode=0o700)
    file = machine.clew_home / "settings.json"
    file.write_text("{}")
    good = one(machine, "settings")
    file.write_text("{broken")
    bad = one(machine, "settings")

    assert good.level is Level.OK
    assert "settings.json" in good.text
    assert bad.level is Level.BROKEN
    assert "settings.json" in bad.text


def test_withheld_settings_are_reported(machine: Machine) -> None:
    (machine.cwd / ".claude").mkdir()
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "touch /tmp/x"}]}]}
    (machine.cwd / ".claude" / "settings.json").write_bytes(msgspec.json.encode({"hooks": hooks}))

    levels = [finding.level for finding in found(machine, "settings")]

    assert levels == [Level.OK, Level.NOTE]


def test_the_embedded_model_is_missing_until_it_is_fetched(machine: Machine) -> None:
    last = found(machine, "embedded")[-1]

    assert last.level is Level.MISSING
    assert "clew models get" in last.text


@pytest.mark.parametrize(
    ("place", "level", "said"),
    [
        ("mysql://u:pw@h/d", "broken", "mysql:// is not a session store"),
        ("postgresql://u:s3cr3t-pw@127.0.0.1:1/d", "broken", "cannot connect"),
        ("postgresql://%%%", "broken", "is not a PostgreSQL URL"),
        ("new/sessions.db", "ok", "is writable"),
        ("file/sessions.db", "broken", "not writable"),
    ],
)
def test_the_store_that_is_named_is_tried(
    machine: Machine, place: str, level: str, said: str
) -> None:
    folder = machine.user_home
    (folder / "file").touch()
    where = place if "://" in place else str(folder / place)

    finding = one(with_environ(machine, CLEW_STORE=where), "store")

    assert (finding.level, said in finding.text) == (level, True)
    assert "s3cr3t-pw" not in finding.text
    assert not (folder / "new").exists()


@pytest.mark.slow("runs on PostgreSQL")
def test_a_database_server_that_answers_is_named_without_its_password(machine: Machine) -> None:
    with postgres.server() as running:
        url = running.url().replace("clew@", "clew:s3cr3t-pw@")
        finding = one(with_environ(machine, CLEW_STORE=url), "store")

    assert finding.level is Level.OK
    assert finding.text.startswith("PostgreSQL ")
    assert "postgres on" in finding.text
    assert "s3cr3t-pw" not in finding.text


def arguments(*argv: str) -> Namespace:
    parser = ArgumentParser()
    add_doctor(parser)
    return parser.parse_args(argv)


SCRIPT = """
import sys
from argparse import ArgumentParser
from clew.cli.subcommands import add_doctor
from clew.cli.doctor import run_doctor
parser = ArgumentParser()
add_doctor(parser)
sys.exit(run_doctor(parser.parse_args()))
"""


async def doctor(folder: Path, *argv: str, **env: str) -> tuple[int, str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    with anyio.fail_after(60):
        done = await anyio.run_process(
            [sys.executable, "-c", SCRIPT, *argv], check=False, env=kept, cwd=folder
        )
    assert done.stderr == b""
    return done.returncode, done.stdout.decode()


@pytest.mark.anyio
@pytest.mark.slow("starts clew")
async def test_each_line_has_a_level_a_text_and_a_remedy(tmp_path: Path) -> None:
    code, text = await doctor(tmp_path, GROQ_API_KEY="gsk-not-to-be-seen")

    assert code == 0
    lines = text.splitlines()
    assert lines[0].split() == ["ok", "clew", __version__]
    assert any("GROQ_API_KEY for groq" in line for line in lines)
    assert any(line.startswith("missing embedded") and "clew models get" in line for line in lines)
    assert "not-to-be-seen" not in text
    assert "\x1b" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
@pytest.mark.slow("starts clew")
async def test_json_holds_every_finding_and_broken_things_fail(tmp_path: Path) -> None:
    (tmp_path / ".clew").write_text("no folder")

    code, text = await doctor(tmp_path, "--json", CLEW_STORE="x\x9b://")

    told: Mapping[str, object] = msgspec.json.decode(text)
    findings = msgspec.convert(told["findings"], list[Finding])
    assert code == 1
    assert (told["version"], told["works"]) == (__version__, False)
    assert {each.name for each in findings if each.level is Level.BROKEN} == {"folder", "store"}
    assert "\x9b" not in text


def test_a_deleted_working_folder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(ConfigError, match="working folder"):
        run_doctor(arguments())
