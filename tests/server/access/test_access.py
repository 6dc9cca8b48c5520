"""Every request passes the checks before it reaches a route."""

from pathlib import Path

import pytest

from clew.server.access import AccessOptions, UsersFile
from tests.server.access.guarded_app import TOKEN, Answer, read_audit, serve

pytestmark = pytest.mark.anyio


def _is_refused(answer: Answer, status: int, error: str) -> bool:
    return (answer.status, answer.error) == (status, error)


async def test_a_request_with_the_token_reaches_its_route() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        answer = await app.send()

    assert answer.status == 200
    assert app.seen == ["owner GET 0"]


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "t" * 9_000])
async def test_a_missing_or_wrong_token_is_refused_before_any_route(token: str | None) -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        answer = await app.send(token=token)

    assert answer.status in (400, 401)
    assert app.seen == []
    if answer.status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "clew serve" in answer.message
        assert TOKEN not in answer.body.decode()


async def test_paths_that_are_public_need_no_token() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        assert (await app.send(path="/api/v1/health", token=None)).status == 200
        assert (await app.send(path="/", token=None)).status == 200
        assert (await app.send(path="/unknown", token=None)).status == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.1", "a b", "[::1"])
async def test_a_host_that_is_not_this_server_is_refused(host: str) -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        answer = await app.send(Host=host)

    assert answer.status in (400, 403)
    assert app.seen == []


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:80", "10.0.0.7", "clew.test"])
async def test_a_host_that_may_be_this_server_is_accepted(host: str) -> None:
    options = AccessOptions(token=TOKEN, hosts=frozenset({"clew.test"}))
    async with serve(options) as app:
        assert (await app.send(Host=host)).status == 200


async def test_a_login_link_works_once_and_sets_a_cookie_that_signs_in() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        link = app.access.make_login_path()
        first = await app.send(path=link, token=None)
        again = await app.send(path=link, token=None)
        cookie, *attributes = first.headers["set-cookie"].split("; ")
        origin = f"http://127.0.0.1:{app.port}"
        read = await app.send(token=None, Cookie=cookie)
        written = await app.send("POST", token=None, Cookie=cookie, Origin=origin)

    assert (first.status, first.headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert TOKEN not in cookie
    assert again.status == 401
    assert (read.status, written.status) == (200, 200)


async def test_the_audit_log_says_who_did_what_and_holds_no_secret(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    users = UsersFile(tmp_path / "users.json")
    token = users.add("alice")
    options = AccessOptions(token=TOKEN, users_file=tmp_path / "users.json", audit_file=log)
    async with serve(options) as app:
        await app.send(path=f"/api/v1/sessions/s1?token={TOKEN}", token=token)
        await app.send(path=app.access.make_login_path(), token=None)
        await app.send(path=f"/{TOKEN}", token="wrong")

    lines = read_audit(log)
    assert [(line.user, line.session, line.status, line.outcome) for line in lines] == [
        ("alice", "s1", 200, "ok"),
        ("", "", 303, "ok"),
        ("", "", 401, "NotAuthenticated"),
    ]
    assert lines[0].route == "/api/v1/sessions/{session_id}"
    assert log.stat().st_mode & 0o777 == 0o600
    text = log.read_text()
    assert [secret for secret in (TOKEN, token, "code=") if secret in text] == []
