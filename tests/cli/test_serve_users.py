"""`clew serve user`, and the flags that say who may use the server."""

from pathlib import Path

import pytest

from clew.cli.arguments import parse_arguments
from clew.cli.serve import run_serve
from clew.core.errors import ConfigError

pytestmark = pytest.mark.req("SRV-3")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "clew"


def _run(*arguments: str) -> int:
    return run_serve(parse_arguments(["serve", *arguments]))


def test_a_user_is_added_listed_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("user", "add", "ann") == 0
    token = capsys.readouterr().out.strip()
    assert _run("user", "list") == 0
    listed = capsys.readouterr().out
    assert _run("user", "remove", "ann") == 0
    capsys.readouterr()
    assert _run("user", "list") == 0

    assert token.startswith("clew_")
    assert listed.startswith("ann  ")
    assert token not in listed
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("flags", [("--continue",), ("-r", "x"), ("--fork", "x")])
def test_flags_that_name_one_session_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="clients choose a session"):
        run_serve(parse_arguments([*flags, "serve"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("user", "add", "../ann"), "cannot be a user name"),
        (("user", "remove", "ann"), "user list"),
        (("--user-header", "X-User"), "--trust-proxy"),
        (("--trust-proxy", "everybody"), "10.0.0.0/8"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _run(*arguments)
