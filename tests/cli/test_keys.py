"""The keys of the user: the program uses them, and the commands that it runs cannot get them."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from clew import Session
from clew.cli.main import main
from clew.core.permissions import PermissionMode
from clew.providers.openai_chat import OpenAIChat
from clew.session.gate import Gate
from clew.testing.fake_openai import (
    ScriptedResponse,
    error_response,
    fake_openai,
    text_response,
    tool_call_response,
)
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("LOG-2"),
    # Another test that starts `clew` at the same time shows its keys until it has hidden them.
    pytest.mark.xdist_group("keys"),
]

KEY = "canary key/of+the user & 4711"
"""It looks like no known kind of key."""
FORMS = {
    "plain": KEY,
    "url": quote(KEY, safe=""),
    "json": json.dumps({"a": KEY}),
    "nested json": json.dumps(json.dumps({"a": KEY})),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "basic authentication": base64.b64encode(f"me:{KEY}".encode()).decode(),
    "base64 after one byte": base64.b64encode(f"x{KEY}yz".encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(f"ab{KEY}".encode()).decode(),
}


def bash(command: str) -> ScriptedResponse:
    return tool_call_response("Bash", json.dumps({"command": command}))


async def clew(url: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """Run `clew -p` with a key in a variable that the settings name."""
    home = folder / "home"
    (home / ".clew").mkdir(parents=True)
    (home / ".clew" / "settings.json").write_text(
        json.dumps(
            {
                "currentProvider": "mine",
                "providers": {
                    "mine": {"type": "openai_chat", "apiKey": "$ENV:OUR_API_KEY", "baseURL": url}
                },
            }
        )
    )
    env = {
        **{key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ},
        "HOME": str(home),
        "OUR_API_KEY": KEY,
        "ODD_NAME": f"user:{KEY}",
        "OTHER_SECRET": "another canary",
        "AWS_SECRET_ACCESS_KEY": "a third canary",
    }
    options = ("--model", "m", "--sandbox", "off", "--permission-mode", "bypassPermissions")
    project = folder / "project"
    project.mkdir()
    with anyio.fail_after(60):
        return await anyio.run_process(
            [sys.executable, "-m", "clew.cli", "-p", "go", *options, *arguments],
            env=env,
            cwd=project,
            check=False,
        )


def everything_in(folder: Path) -> str:
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return b"\n".join(found).decode(errors="replace")


async def test_no_process_shows_a_key_in_its_environment(tmp_path: Path) -> None:
    search = (
        "env > own.txt; ls /proc/*/environ > listed.txt; "
        "grep -sl 'cana[r]y' /proc/[0-9]*/environ > found.txt; true"
    )
    async with fake_openai(bash(search), text_response("done")) as server:
        result = await clew(server.url, tmp_path)

    assert (result.returncode, result.stdout) == (0, b"done\n")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    project = tmp_path / "project"
    assert "canary" not in (project / "own.txt").read_text()
    assert (project / "listed.txt").read_text()
    shown = [
        name
        for name in (project / "found.txt").read_text().split()
        if Path(name).parent.name != str(os.getpid())
    ]
    assert shown == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
@pytest.mark.parametrize(("variables", "traceable"), [({}, 0), ({"CLEW_DEBUG": "1"}, 1)])
async def test_other_processes_cannot_trace_the_program_unless_it_is_debugged(
    variables: Mapping[str, str], traceable: int
) -> None:
    code = (
        "import ctypes\nfrom clew.cli.environment import take_secrets\ntake_secrets()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}

    result = await anyio.run_process([sys.executable, "-c", code], env={**kept, **variables})

    assert int(result.stdout) == traceable


async def test_a_key_is_redacted_in_every_spelling_and_in_every_place(tmp_path: Path) -> None:
    (tmp_path / "forms.txt").write_text("\n".join(f"{name} {form}" for name, form in FORMS.items()))
    async with fake_openai(
        bash("cat ../forms.txt; cat ../forms.txt >&2"), text_response("done")
    ) as server:
        result = await clew(server.url, tmp_path, "--output-format", "stream-json", "--log", "raw")
    (tmp_path / "forms.txt").unlink()
    (tmp_path / "home" / ".clew" / "settings.json").unlink()

    assert result.returncode == 0, result.stderr
    places = {
        "request": json.dumps(server.requests[1]),
        "screen": (result.stdout + result.stderr).decode(),
        "disk": everything_in(tmp_path),
    }
    for place, text in places.items():
        assert text.count("[redacted:value]") >= 8, place
        for name, form in FORMS.items():
            core = form[4:24]
            assert core not in text, f"{name} is in {place}"


async def test_an_error_that_repeats_the_key_shows_and_stores_it_nowhere(tmp_path: Path) -> None:
    said = f"bad key {KEY}; db password=hunter2x9 and Authorization: Bearer abcdef0123456789abcd"
    async with fake_openai(error_response(400, said)) as server:
        result = await clew(server.url, tmp_path)
    (tmp_path / "home" / ".clew" / "settings.json").unlink()

    shown, stored = (result.stdout + result.stderr).decode(), everything_in(tmp_path)
    assert "bad key" in shown
    for secret in (KEY, "hunter2x9", "abcdef0123456789abcd"):
        assert secret not in shown
        assert secret not in stored


async def test_a_library_leaves_the_environment_of_its_application_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUR_API_KEY", KEY)
    before = dict(os.environ)

    async with fake_openai(bash("env"), text_response("done")) as server:
        provider = OpenAIChat(api_key=KEY, base_url=server.url)
        async with Session(
            provider,
            model="m",
            cwd=tmp_path,
            tools=builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF))),
            gate=Gate(cwd=tmp_path, mode=PermissionMode.BYPASS),
        ) as session:
            await session.run("go")
        await provider.aclose()
    assert main(["config", "show"]) == 0

    assert dict(os.environ) == before
    assert KEY not in json.dumps(server.requests[1])
    assert capsys.readouterr().out
