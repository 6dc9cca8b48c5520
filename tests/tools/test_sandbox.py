"""The sandboxes: their options, which one is used, and their effects."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from clew.core.errors import ConfigError
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.bash import bash_tool
from clew.tools.protocol import ToolContext, ToolOutput
from clew.tools.sandbox import (
    Sandbox,
    SandboxMode,
    SandboxPaths,
    SandboxPolicy,
    bubblewrap_options,
    find_git_folder,
    find_sandbox_paths,
)
from clew.tools.sandbox.bubblewrap import Bubblewrap

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-2")]

FOUND = Sandbox(backends=[Bubblewrap()])
needs_bubblewrap = pytest.mark.skipif(
    not FOUND.active, reason=f"no sandbox on this machine: {FOUND.problem}"
)
GROUNDS = SandboxPaths(
    folder=Path("/home/me/project"),
    cwd=Path("/home/me/project/src"),
    home=Path("/home/me"),
    caches=(Path("/home/me/.cache"),),
    writable=(Path("/tmp"),),
    guarded=(Path("/home/me/project/.clew"),),
    socket_folders=(Path("/run/user"),),
    socket_files=(Path("/run/docker.sock"),),
    agent=Path("/run/user/1/agent"),
)
SHARED = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
SHARED += ["--cap-drop", "ALL"]
WHOLE = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


def bind(path: str, kind: str = "--bind") -> list[str]:
    return [kind, path, path]


def test_everything_is_read_only_but_the_project_temporary_files_and_caches() -> None:
    assert bubblewrap_options(SandboxPolicy(), GROUNDS) == [
        *SHARED,
        *WHOLE,
        *bind("/tmp"),
        *("--ro-bind", "/dev/null", "/run/docker.sock", "--tmpfs", "/run/user"),
        *bind("/home/me/.cache"),
        *bind("/home/me/project"),
        *bind("/home/me/project/.clew", "--ro-bind"),
        *bind("/run/user/1/agent"),
        *("--chdir", "/home/me/project/src"),
    ]


def test_a_hidden_home_and_no_network_leave_only_the_project() -> None:
    assert bubblewrap_options(SandboxPolicy(network=False, home="hidden"), GROUNDS) == [
        *SHARED,
        "--unshare-net",
        *WHOLE,
        *bind("/tmp"),
        *("--tmpfs", "/home/me"),
        *("--ro-bind", "/dev/null", "/run/docker.sock", "--tmpfs", "/run/user"),
        *bind("/home/me/project"),
        *bind("/home/me/project/.clew", "--ro-bind"),
        *("--chdir", "/home/me/project/src"),
    ]


def test_without_bubblewrap_the_error_says_what_to_install() -> None:
    backends = [Bubblewrap("no-such-program")]
    missing = Sandbox(backends=backends)

    assert not missing.active
    assert missing.describe() == (
        "Commands run without a sandbox: bubblewrap (no-such-program) is not installed; install "
        "it with your package manager, for example: apt install bubblewrap."
    )
    with pytest.raises(ConfigError, match=r"require a sandbox, but bubblewrap .* apt install"):
        Sandbox(SandboxPolicy(mode=SandboxMode.ON), backends=backends)


def test_a_bubblewrap_that_does_not_work_is_tried_and_not_used(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)

    backends = [Bubblewrap(str(program))]
    broken = Sandbox(backends=backends)

    assert not broken.active
    assert "(setting up uid map: Permission denied)" in broken.describe()
    assert "user namespaces" in broken.describe()
    with pytest.raises(ConfigError, match="uid map"):
        Sandbox(SandboxPolicy(mode=SandboxMode.ON), backends=backends)


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap exists on Linux only")
def test_a_sandbox_that_works_is_tried_once_for_each_policy(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/log\necho started\n")
    program.chmod(0o755)

    first, second = Sandbox(program=str(program)), Sandbox(program=str(program))
    assert first.name == second.name == "bubblewrap"
    assert (tmp_path / "log").read_text().count("tried") == 1

    Sandbox(SandboxPolicy(network=False), program=str(program))
    assert (tmp_path / "log").read_text().count("tried") == 2


async def test_a_sandbox_that_is_off_leaves_commands_as_they_are(tmp_path: Path) -> None:
    off = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))
    tool = bash_tool(sandbox=off)

    out = await tool.run({"command": "echo hi"}, ToolContext(cwd=tmp_path))

    assert off.describe() == "Commands run without a sandbox: it is switched off."
    assert "sandbox" not in tool.spec.description
    assert (out.text, out.data["sandbox"]) == ("hi", False)


def test_only_what_exists_is_named(tmp_path: Path) -> None:
    (tmp_path / ".clew").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)

    found = find_sandbox_paths(tmp_path / "link", tmp_path, extra=(tmp_path / "nowhere",))

    assert found.folder == tmp_path.resolve()
    assert found.guarded == (tmp_path.resolve() / ".clew",)
    assert tmp_path / "nowhere" not in found.writable
    assert all(path.exists() for path in (*found.caches, *found.writable, *found.socket_folders))


def repository(folder: Path) -> Path:
    (folder / ".git/objects").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return folder / ".git"


def test_git_finds_its_history_from_a_part_and_from_a_worktree(tmp_path: Path) -> None:
    git = repository(tmp_path / "main")
    (tmp_path / "main/deep/er").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (git / "worktrees/tree").mkdir(parents=True)
    (git / "worktrees/tree/gitdir").write_text(f"{tmp_path}/tree/.git\n")
    (tmp_path / "tree/.git").write_text(f"gitdir: {git}/worktrees/tree\n")

    assert find_git_folder(tmp_path / "main") == git
    assert find_git_folder(tmp_path / "main/deep/er") == git
    assert find_git_folder(tmp_path / "tree") == git


@pytest.mark.parametrize("target", ["home", "home/worktrees/x", "gone", "fake/worktrees/x"])
def test_a_git_file_opens_no_folder_by_saying_so(tmp_path: Path, target: str) -> None:
    (tmp_path / "home/worktrees/x").mkdir(parents=True)
    (tmp_path / "fake/worktrees/x").mkdir(parents=True)
    (tmp_path / "fake/worktrees/x/gitdir").write_text(f"{tmp_path}/tree/.git")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text(f"gitdir: {tmp_path / target}\n")

    assert find_git_folder(tmp_path / "tree") is None


def test_a_link_to_a_git_folder_opens_nothing(tmp_path: Path) -> None:
    repository(tmp_path / "other")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").symlink_to(tmp_path / "other/.git")

    assert find_git_folder(tmp_path / "tree") is None
    assert tmp_path / "other/.git" not in find_sandbox_paths(tmp_path / "tree", tmp_path).writable


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/sub").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def outside() -> Iterator[Path]:
    """A file that no sandboxed command may make."""
    path = Path(f"/var/tmp/clew-sandbox-test-{os.getpid()}")
    yield path
    path.unlink(missing_ok=True)


async def run(
    context: ToolContext | Path, command: str, policy: SandboxPolicy | None = None
) -> ToolOutput:
    context = context if isinstance(context, ToolContext) else ToolContext(cwd=context)
    tool = bash_tool(sandbox=Sandbox(policy or SandboxPolicy(mode=SandboxMode.ON)))
    with anyio.fail_after(60):
        return await tool.run({"command": command, "timeout": 20}, context)


@needs_bubblewrap
async def test_commands_write_in_the_project_and_nowhere_else(project: Path, outside: Path) -> None:
    out = await run(project, f"echo in > file; cat /etc/passwd > copy; echo out > {outside}")

    assert (project / "file").read_text() == "in\n"
    assert (project / "copy").read_text() == Path("/etc/passwd").read_text()
    assert not outside.exists()
    assert out.failed
    assert out.data["sandbox"] is True
    assert out.text.endswith(
        "[exit code 1]\n[in the sandbox, commands can write only to the working directory and"
        " temporary folders]"
    )


@needs_bubblewrap
@pytest.mark.parametrize(
    "attempt",
    [
        "mount -o remount,rw,bind / /",
        "umount -l /",
        "unshare -Urm mount -o remount,rw,bind / /",
        "nsenter -t 1 -m true",
        "kill -KILL {pid}",
    ],
)
async def test_there_is_no_simple_escape(project: Path, outside: Path, attempt: str) -> None:
    sleeper = await anyio.open_process(["sleep", "1000"])
    try:
        attempt = attempt.format(pid=sleeper.pid)
        out = await run(project, f"{attempt}; echo out > {outside}")

        assert out.failed
        assert not outside.exists()
        assert sleeper.returncode is None
    finally:
        sleeper.terminate()
        await sleeper.wait()


@needs_bubblewrap
async def test_settings_and_hooks_of_the_project_are_read_only(project: Path) -> None:
    for folder in (".clew", ".claude", ".git/hooks"):
        (project / folder).mkdir(parents=True)

    out = await run(project, "touch .clew/x; touch .claude/x; touch .git/hooks/x; touch .git/ok")

    assert out.text.count("Read-only file system") == 3
    assert (project / ".git/ok").exists()
    assert list((project / ".git/hooks").iterdir()) == []


@needs_bubblewrap
async def test_a_folder_holds_for_the_next_command_in_the_sandbox_too(project: Path) -> None:
    place = ToolContext(cwd=project)

    await run(place, "cd sub")

    assert (await run(place, "pwd; exit 7")).text == f"{project}/sub\n[exit code 7]"


@needs_bubblewrap
@pytest.mark.parametrize("network", [True, False])
async def test_the_network_can_be_switched_off(project: Path, *, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        out = await run(
            project, f"echo > /dev/tcp/127.0.0.1/{port}", SandboxPolicy(network=network)
        )

    assert out.failed is not network


@needs_bubblewrap
async def test_a_hidden_home_shows_the_project_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "secret").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = await run(tmp_path / "project", "ls ~")

    hidden = await run(tmp_path / "project", "ls ~ && touch new", SandboxPolicy(home="hidden"))

    assert seen.text == "project\nsecret"
    assert hidden.text == "project"
    assert (tmp_path / "project/new").exists()


@needs_bubblewrap
async def test_what_a_command_leaves_behind_ends_with_it(project: Path) -> None:
    os.mkfifo(project / "alive")
    reader = os.open(project / "alive", os.O_RDONLY | os.O_NONBLOCK)
    command = "exec 9> alive; setsid sleep 1000 & echo started"

    out = await run(project, command)

    assert out.text == "started"
    with anyio.fail_after(60):
        await anyio.wait_readable(reader)
    assert os.read(reader, 1) == b""
    os.close(reader)


@needs_bubblewrap
async def test_time_that_is_up_ends_the_sandbox(project: Path) -> None:
    os.mkfifo(project / "alive")
    reader = os.open(project / "alive", os.O_RDONLY | os.O_NONBLOCK)
    tool = bash_tool(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.ON)))
    command = "trap '' TERM; exec > >(tee alive); echo hi; while :; do sleep 1000; done"

    with anyio.fail_after(60):
        out = await tool.run({"command": command, "timeout": 1}, ToolContext(cwd=project))
        while os.read(reader, 10):
            await anyio.wait_readable(reader)

    assert out.data["timed_out"] is True
    os.close(reader)


@needs_bubblewrap
async def test_the_model_reads_about_the_sandbox() -> None:
    tools = {tool.spec.name: tool.spec for tool in builtin_tools(sandbox=FOUND)}

    assert tools["Bash"].description.endswith(FOUND.describe())
    assert "network is on" in FOUND.describe()


@needs_bubblewrap
@pytest.mark.skipif(os.getuid() != 0, reason="only root can own nothing of a folder it writes to")
async def test_as_root_the_sandbox_refuses_the_folder_of_another_user(
    project: Path,
) -> None:
    os.chown(project, 12345, -1)

    loose = await run(project, "echo hi > file", SandboxPolicy())
    strict = await run(project, "echo hi > other")

    assert loose.text.startswith("[run without the sandbox: the working folder belongs to another")
    assert (project / "file").exists()
    assert strict.failed
    assert not (project / "other").exists()


@needs_bubblewrap
async def test_git_commits_from_inside(project: Path) -> None:
    env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    names |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    place = ToolContext(cwd=project, env=env | names)

    out = await run(place, "git init -q . && echo x > f && git add f && git commit -qm m")

    assert not out.failed, out.text
    assert (await run(place, "git log --format=%s")).text == "m"
