"""A path that a deny rule names is out of reach for the processes of a command."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from attacks.evasions import READS_ENV, WRITES_CONF
from attacks.sandbox import BACKENDS, Trial
from clew.core.permissions import DeniedPaths, PermissionMode
from clew.permissions.denied_paths import find_denied_paths
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.session.session import Session
from clew.tools.builtin.bash import bash_tool
from clew.tools.protocol import ToolContext, ToolOutput
from clew.tools.sandbox import Sandbox, SandboxPaths, SandboxPolicy, seatbelt_profile
from clew.tools.sandbox.landlock import Landlock
from clew.tools.sandbox.landlock_exec import iter_grants

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-6")]

SANDBOXES = {name: Sandbox(backends=[backend]) for name, backend in BACKENDS.items()}
EACH = pytest.mark.parametrize("name", SANDBOXES)
MASKING = pytest.mark.parametrize("name", ["bubblewrap", "Landlock"])


def sandbox_named(name: str) -> Sandbox:
    sandbox = SANDBOXES[name]
    if not sandbox.active:
        pytest.skip(f"{name}: {sandbox.problem}")
    return sandbox


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("secret/deep", "conf", "src"):
        (root / folder).mkdir(parents=True)
    for file in (".env", "secret/key", "secret/deep/key"):
        (root / file).write_text(f"canary of {file}")
    (root / "conf/x").write_text("a")
    return root


async def run(name: str, project: Path, command: str, *rules: str) -> ToolOutput:
    parsed = [parse_rule(rule) for rule in rules]
    context = ToolContext(cwd=project, find_denied=lambda: find_denied_paths(parsed, project))
    tool = bash_tool(sandbox=sandbox_named(name))
    with anyio.fail_after(60):
        return await tool.run({"command": command, "timeout": 30}, context)


@pytest.mark.slow("starts processes")
@EACH
async def test_evasions_that_really_run_read_and_change_nothing(name: str, tmp_path: Path) -> None:
    lines = [*READS_ENV[::20], *WRITES_CONF[::20]]
    sandbox = sandbox_named(name)
    trial = Trial.prepare(tmp_path.resolve(), lines)

    await anyio.to_thread.run_sync(trial.run, sandbox)

    assert [problem for problem in trial.judge() if problem[1]] == []


@EACH
@pytest.mark.parametrize(
    "line",
    [
        "cat .env secret/key secret/deep/key",
        "cat /proc/self/root$PWD/.env; cat /proc/self/cwd/.env",
        "ln .env other; cat other",
        "ln -s . here; cat here/.env",
        "mv .env other; cat other",
        "mv secret other; cat other/key",
        "cp -r . ../copy; cat ../copy/.env ../copy/secret/key",
        "python3 -c 'print(open(\".env\").read())'",
        "exec 3<.; cat /proc/self/fd/3/.env",
        "cat /proc/$PPID/cwd/.env /proc/$PPID/root$PWD/.env",
    ],
)
async def test_a_hidden_path_is_not_readable_in_any_way(
    name: str, line: str, project: Path
) -> None:
    out = await run(name, project, line, "Read(./.env)", "Read(secret/**)")

    assert "canary" not in out.text
    assert (project / ".env").read_text() == "canary of .env"
    assert (project / "secret/key").read_text() == "canary of secret/key"


@EACH
async def test_a_read_only_path_is_read_and_not_written(name: str, project: Path) -> None:
    attempts = (
        "cat conf/x; echo b > conf/x; echo b > conf/new; rm conf/x; mv conf c; rm -r conf; "
        "mv src conf/; ln -sf /dev/null conf/x; truncate -s 0 conf/x"
    )

    out = await run(name, project, attempts, "Edit(./conf/**)")

    assert out.text.startswith("a")
    assert [path.name for path in (project / "conf").iterdir()] == ["x"]
    assert (project / "conf/x").read_text() == "a"


@MASKING
async def test_the_rest_of_the_project_stays_usable(name: str, project: Path) -> None:
    line = "echo 1 > new && cat new && echo 2 > src/new && mv src/new src/newer && cat src/newer"

    out = await run(name, project, line, "Read(.env)", "Edit(./conf/**)")

    assert (out.text, out.failed) == ("1\n2", False)


async def test_the_model_is_told_why_a_file_cannot_be_opened(project: Path) -> None:
    out = await run("bubblewrap", project, "cat .env", "Read(./.env)")

    assert "[in the sandbox, commands cannot reach files that deny rules name]" in out.text


async def test_landlock_alone_says_that_files_cannot_be_created_beside_a_hidden_one(
    project: Path,
) -> None:
    name = "Landlock without namespaces"

    out = await run(name, project, "echo 1 > new; echo 2 > src/new; cat src/new", "Read(./.env)")

    assert not (project / "new").exists()
    assert "2" in out.text.splitlines()
    assert "cannot create files in a folder" in sandbox_named(name).describe()


@MASKING
async def test_a_hard_link_from_before_is_hidden_too(name: str, project: Path) -> None:
    os.link(project / ".env", project / "src/other")

    out = await run(name, project, "cat src/other", "Read(./.env)")

    assert "canary" not in out.text


@EACH
async def test_a_file_that_is_created_is_protected_from_the_next_command_on(
    name: str, project: Path
) -> None:
    first = await run(name, project, "echo new > src/.env", "Read(.env)")
    second = await run(name, project, "cat src/.env", "Read(.env)")

    assert not first.failed
    assert second.failed
    assert (project / "src/.env").read_text() == "new\n"


@EACH
async def test_the_network_is_off_by_rule(name: str, project: Path) -> None:
    sandbox_named(name)
    off = Sandbox(SandboxPolicy(network=False), backends=[BACKENDS[name]])
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"echo > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        outputs = [
            await bash_tool(sandbox=each).run({"command": line}, ToolContext(cwd=project))
            for each in (SANDBOXES[name], off)
        ]

    assert [out.failed for out in outputs] == [False, True]


async def test_a_session_hides_what_its_deny_rules_name(project: Path) -> None:
    sandbox_named("bubblewrap")
    (project / "read.sh").write_text("cat .env; echo done\n")
    gate = Gate(cwd=project, mode=PermissionMode.BYPASS, deny=(parse_rule("Read(./.env)"),))
    provider = ScriptedProvider([call_reply(("Bash", {"command": "sh read.sh"})), "ok"])

    async with Session(provider, model="m", tools=[bash_tool()], gate=gate, cwd=project) as session:
        await session.run("go")

    answered = str(provider.requests[1].messages[-1].parts)
    assert "done" in answered
    assert "canary" not in answered


def test_rules_become_existing_paths(project: Path) -> None:
    (project / "src/.env").write_text("x")
    (project / "src/link").symlink_to(project / "conf")
    rules = ["Read(.env)", "Read(./secret/**)", "Edit(*.lock)", "Edit(./src/link)", "Read(./gone)"]
    (project / "a.lock").touch()

    found = find_denied_paths(map(parse_rule, [*rules, "Read", "Bash(rm *)"]), project)

    assert found == DeniedPaths(
        hidden=tuple(str(project / name) for name in (".env", "secret", "src/.env")),
        read_only=tuple(str(project / name) for name in ("a.lock", "conf")),
    )


def test_a_rule_with_too_many_places_is_named(project: Path) -> None:
    found = find_denied_paths([parse_rule("Read(.env)")], project, limit=1)

    assert found.uncovered == ("Read(.env)",)


def test_landlock_opens_the_entries_around_a_hidden_path(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    for name in ("a", "b/c", "b/d"):
        (root / name).mkdir(parents=True)
    access = {"/": "r", str(root): "w", str(root / "b/c"): "-"}

    grants = [grant for grant in iter_grants(access) if grant[0].startswith(str(root))]

    assert sorted(grants) == [
        (str(root), "l"),
        (str(root / "a"), "w"),
        (str(root / "b"), "l"),
        (str(root / "b/d"), "w"),
    ]


def test_a_seatbelt_profile_forbids_last() -> None:
    paths = SandboxPaths(
        folder=Path("/Users/me/project"),
        cwd=Path("/Users/me/project"),
        home=Path("/Users/me"),
        guarded=(Path("/Users/me/project/.clew"),),
        hidden=(Path('/Users/me/project/a"b'),),
        read_only=(Path("/Users/me/project/conf"),),
    )

    profile = seatbelt_profile(SandboxPolicy(network=False), paths).splitlines()

    assert profile[:4] == [
        "(version 1)",
        "(allow default)",
        "(deny network*)",
        "(deny file-write*)",
    ]
    assert profile[-6:] == [
        '(deny file-write* (subpath "/Users/me/project/.clew") (subpath "/Users/me/project/conf"))',
        '(deny file* (subpath "/Users/me/project/a\\"b"))',
        '(deny file-write-unlink (literal "/"))',
        '(deny file-write-unlink (literal "/Users"))',
        '(deny file-write-unlink (literal "/Users/me"))',
        '(deny file-write-unlink (literal "/Users/me/project"))',
    ]


def test_a_sandbox_that_protects_nothing_is_not_used() -> None:
    class Pretends(Landlock):
        def wrap(
            self, command: Sequence[str], *, policy: SandboxPolicy, paths: SandboxPaths
        ) -> list[str]:
            del policy
            return ["env", f"--chdir={paths.cwd}", *command]

    sandbox = Sandbox(backends=[Pretends(namespaces=False)])

    assert not sandbox.active
    assert "does not protect a forbidden file" in sandbox.problem
