"""Tokens, users and codes: what is stored, and what is accepted."""

import stat
from pathlib import Path

import pytest

from clew.core.errors import ConfigError
from clew.server.access import UsersFile, load_token, replace_token
from clew.server.access.tokens import LoginCodes
from clew.server.access.users import make_user, parse_proxy_user

pytestmark = pytest.mark.req("SRV-3")


def test_the_token_file_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "server.token"

    token = load_token(path)

    assert load_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert replace_token(path) != token
    assert load_token(path) != token


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.token"
    load_token(path)
    path.chmod(0o640)

    with pytest.raises(ConfigError, match="chmod 600"):
        load_token(path)


@pytest.mark.parametrize("text", ["", "short", "x" * 300, "ü" * 40])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.token"
    path.write_text(text)
    path.chmod(0o600)

    with pytest.raises(ConfigError, match="--new-token"):
        load_token(path)


def test_a_token_file_behind_a_link_or_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    load_token(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir(mode=0o700)

    for name in ("link", "folder"):
        with pytest.raises(ConfigError):
            load_token(tmp_path / name)


def test_a_login_code_works_once_and_for_minutes_only() -> None:
    now = [0.0]
    codes = LoginCodes(lambda: now[0], seconds=600)
    first, second = codes.make(), codes.make()

    assert codes.take(first)
    assert not codes.take(first)
    now[0] = 601
    assert not codes.take(second)
    assert not codes.take("")


def test_the_users_file_holds_names_and_hashes_only(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    users = UsersFile(path)

    ann, bob = users.add("ann"), users.add("bob")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ann not in path.read_text()
    assert [user.name for user in users.list_users()] == ["ann", "bob"]
    assert ann != bob


def test_a_change_of_the_users_file_counts_at_once(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    server = UsersFile(path)
    assert server.read_hashes() == {}

    admin = UsersFile(path)
    admin.add("ann")
    old = server.read_hashes()["ann"]
    admin.add("ann")

    assert server.read_hashes()["ann"] != old
    admin.remove("ann")
    assert server.read_hashes() == {}
    with pytest.raises(ConfigError, match="user list"):
        admin.remove("ann")


@pytest.mark.parametrize("name", ["", "owner", "../x", "A", "a/b", "a b", "x" * 64, ".a", "a\n"])
def test_a_name_that_is_not_plain_cannot_be_a_user(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a user name"):
        UsersFile(tmp_path / "users.json").add(name)


def test_a_damaged_users_file_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text('{"users": [{"name": "ann"}]}')
    path.chmod(0o600)

    with pytest.raises(ConfigError, match="damaged"):
        UsersFile(path).read_hashes()


def test_no_two_users_share_a_namespace() -> None:
    names = ["ann", "Ann", "a.nn", "a-nn", "ann@example.org", "x" * 60, "x" * 61]

    namespaces = {make_user(name).namespace.lower() for name in names}

    assert len(namespaces) == len(names)
    assert all("/" not in one and not one.startswith(".") for one in namespaces)
    assert make_user("owner").namespace == ""
    assert parse_proxy_user("ann") == make_user("ann")
