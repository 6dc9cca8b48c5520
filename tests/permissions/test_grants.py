"""What "allow for this session" covers."""

from pathlib import Path

import pytest

from clew.core.access import Access, Risk
from clew.permissions.grants import covers, grant_for

pytestmark = pytest.mark.req("PRM-3")
HERE = Path("/srv/project")


def bash(command: str) -> Access:
    return Access(tool="Bash", risk=Risk.EXECUTE, target=command)


def write(path: str) -> Access:
    return Access(tool="Write", risk=Risk.MODIFY, target=path, is_path=True)


@pytest.mark.parametrize(
    ("granted", "asked", "covered"),
    [
        ("git status", "git status -s", True),
        ("git status", "git push", False),
        ("git status", "git status && git push", False),
        ("git add a && git status", "git add b && git status -s", True),
        ("git add a && git status", "git status && git add b", False),
        ("ls", "ls", True),
        ("ls", "ls -la", False),
        ("ls", "ls; rm x", False),
        ("echo $(date)", "echo $(date)", True),
        ("echo $(date)", "echo $(date) x", False),
        ("echo $(date)", "echo $(rm x)", False),
        ("rm a", "rm a", True),
        ("rm a", "rm a -rf /", False),
        ("sudo apt update", "sudo apt install x", False),
        ("python -c 'print(1)'", "python -c 'evil()'", False),
        ("git status", "git status > x", False),
        ("git status", "git status $(x)", False),
        ("git status", "git status $X", False),
        ("git status", "'git' status", True),
        ("git status", "./git status", False),
    ],
)
def test_a_command_grants_its_shape(granted: str, asked: str, *, covered: bool) -> None:
    assert covers(grant_for(bash(granted), HERE), bash(asked), HERE) is covered


def test_a_path_grants_its_folder_to_the_same_tool(tmp_path: Path) -> None:
    grant = grant_for(write("src/a.py"), tmp_path)
    edit = Access(tool="Edit", risk=Risk.MODIFY, target="src/b.py", is_path=True)

    assert covers(grant, write("src/b.py"), tmp_path)
    assert covers(grant, write(str(tmp_path / "src/c.py")), tmp_path)
    assert not covers(grant, write("src/deep/b.py"), tmp_path)
    assert not covers(grant, write("src/../b.py"), tmp_path)
    assert not covers(grant, edit, tmp_path)


def test_a_searched_folder_grants_itself_and_not_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    search = Access(tool="Grep", risk=Risk.INSPECT, target="a", is_path=True)
    other = Access(tool="Grep", risk=Risk.INSPECT, target="b", is_path=True)
    grant = grant_for(search, tmp_path)

    assert covers(grant, search, tmp_path)
    assert not covers(grant, other, tmp_path)


def test_anything_else_grants_only_itself() -> None:
    page = Access(tool="WebFetch", risk=Risk.INSPECT, target="https://a/b")
    other = Access(tool="WebFetch", risk=Risk.INSPECT, target="https://a/c")

    assert covers(grant_for(page, HERE), page, HERE)
    assert not covers(grant_for(page, HERE), other, HERE)
