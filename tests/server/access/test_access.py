"""Every request passes the checks before it reaches a route."""

from pathlib import Path
from typing import Any

import pytest

from clew.server.access import AccessOptions, UsersFile
from clew.server.access.origins import parse_networks
from tests.server.access.guarded_app import TOKEN, Answer, GuardedApp, read_audit, serve

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-3")]


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


async def test_a_page_of_another_site_cannot_use_the_cookie() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        cookie = await _sign_in(app)
        same = f"http://127.0.0.1:{app.port}"
        foreign: list[dict[str, Any]] = [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": same.replace("http:", "https:")},
            {"Origin": f"http://127.0.0.1:{app.port + 1}"},
            {"Origin": "http://[::1"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {},
        ]
        for headers in foreign:
            answer = await app.send("POST", token=None, Cookie=cookie, **headers)
            assert _is_refused(answer, 403, "AccessDenied"), headers
        read = await app.send(token=None, Cookie=cookie, Sec_Fetch_Site="cross-site")

        assert _is_refused(read, 403, "AccessDenied")
        assert app.seen == []


async def test_a_websocket_is_opened_only_by_the_page_of_the_server_or_with_a_token() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        cookie = await _sign_in(app)
        same = f"http://127.0.0.1:{app.port}"

        async def connect(token: str | None, **headers: Any) -> int:
            return await _connect(app, token, **headers)

        assert await connect(None, Cookie=cookie, Origin=same) == 101
        assert await connect(TOKEN) == 101
        assert await connect(None, Cookie=cookie) == 403
        assert await connect(None, Cookie=cookie, Origin="https://evil.example") == 403
        assert await connect(TOKEN, Origin="https://evil.example") == 403
        assert await connect(None) == 401


async def test_a_form_signs_in_with_the_token_of_a_user(tmp_path: Path) -> None:
    users = UsersFile(tmp_path / "users.json")
    form = f"token={users.add('alice')}".encode()
    kind = "application/x-www-form-urlencoded"
    options = AccessOptions(token=TOKEN, users_file=tmp_path / "users.json")
    async with serve(options) as app:

        async def sign_in(body: bytes, **headers: Any) -> Answer:
            return await app.send(
                "POST", "/login", token=None, body=body, Content_Type=kind, **headers
            )

        page = await app.send(path="/login", token=None)
        style = await app.send(path="/login.css", token=None)
        good = await sign_in(form)
        bad = await sign_in(b"token=wrong")
        foreign = await sign_in(form, Origin="https://evil.example")
        large = await sign_in(b"token=" + b"x" * 5_000)
        cookie = good.headers["set-cookie"].split(";")[0]
        before = await app.send(token=None, Cookie=cookie)
        users.remove("alice")
        after = await app.send(token=None, Cookie=cookie)

    assert b"<form" in page.body
    assert style.headers["content-type"].startswith("text/css")
    assert (good.status, bad.status, foreign.status, large.status) == (303, 401, 403, 413)
    assert before.body == b'{"user": "alice"}'
    assert after.status == 401


async def test_a_changed_cookie_is_refused() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        name, _, value = (await _sign_in(app)).partition("=")
        version, end, code, user = value.split(".")
        for forged in (
            f"{version}.{int(end) + 1}.{code}.{user}",
            f"{version}.{end}.{'0' * 64}.{user}",
            f"{version}.{end}.{code}.alice",
            f"{version}.{end}.{code}",
            "",
        ):
            answer = await app.send(token=None, Cookie=f"{name}={forged}")
            assert _is_refused(answer, 401, "NotAuthenticated"), forged


async def test_signing_out_removes_the_cookie() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        answer = await app.send("POST", "/logout", token=None)

        assert answer.status == 303
        assert "Max-Age=0" in answer.headers["set-cookie"]
        for method in ("GET", "PUT"):
            refused = await app.send(method, "/logout", token=None)
            assert (refused.status, refused.headers["allow"]) == (405, "POST")


async def test_a_form_that_is_not_one_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        for kind, status in (
            ("multipart/form-data; boundary=a", 415),
            ("text/plain", 415),
            ("application/x-www-form-urlencoded; charset=none", 401),
        ):
            answer = await app.send(
                "POST", "/login", token=None, body=b"token=\xff&a", Content_Type=kind
            )
            assert answer.status == status, kind

    assert caplog.text == ""


@pytest.mark.parametrize(
    "path",
    [
        "/page/../api/v1/thing",
        "/page/%2e%2e/api/v1/thing",
        "/page/..%2fapi/v1/thing",
        "/api/v1/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/page/..%5c..%5csecret",
        "/page/a%00.js",
        "/api/v1/thing%0d%0aX-Injected:1",
        "//api/v1/thing",
        "/page/%252e%252e/x",
        "/API/v1/thing",
        "/login/../api/v1/thing",
        "/api/v1/health/../thing",
        "/api/v1/health/",
        "http://127.0.0.1/api/v1/thing",
        "*",
    ],
)
async def test_no_way_to_write_a_path_leads_around_the_token(path: str) -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        answer = await app.send(path=path, token=None)

    assert answer.status in (400, 401, 403, 404)
    assert "x-injected" not in answer.headers
    assert app.seen == []


async def test_every_answer_has_the_security_headers() -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        app.hold.set()
        answers = [
            await app.send(),
            await app.send(path="/api/v1/events"),
            await app.send(path="/unknown"),
            await app.send(token=None),
            await app.send(path="/", token=None),
            await app.send(path="/login", token=None),
        ]

    assert [answer.status for answer in answers] == [200, 200, 404, 401, 200, 200]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "aiohttp" not in answer.headers["server"].lower()


async def test_a_proxy_names_the_user_only_if_it_is_trusted(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    proxies = parse_networks(["127.0.0.0/8"])
    trusting = AccessOptions(
        token=TOKEN, proxies=proxies, user_header="Remote-User", audit_file=log
    )
    async with serve(trusting) as app:
        named = await app.send(
            token=None, Remote_User="ann@example.org", X_Forwarded_For="6.6.6.6, 10.1.2.3"
        )
        owner = await app.send(token=None, Remote_User="owner")
        odd = await app.send(token=None, Remote_User="../ann")
        none = await app.send(token=None)
        forged = await app.send(token="wrong", X_Forwarded_Host="evil.example")
    async with serve(AccessOptions(token=TOKEN, user_header="Remote-User")) as app:
        untrusted = await app.send(token=None, Remote_User="ann@example.org")

    assert named.body == b'{"user": "ann@example.org"}'
    assert read_audit(log)[0].address == "10.1.2.3"
    statuses = [answer.status for answer in (owner, odd, none, forged, untrusted)]
    assert statuses == [403, 403, 401, 403, 401]


async def test_a_page_of_another_site_cannot_use_the_name_that_a_proxy_gives() -> None:
    options = AccessOptions(
        token=TOKEN, proxies=parse_networks(["127.0.0.1"]), user_header="Remote-User"
    )
    async with serve(options) as app:
        same = f"http://127.0.0.1:{app.port}"
        foreign: list[dict[str, Any]] = [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        ]
        for headers in foreign:
            for method in ("GET", "POST", "PUT", "DELETE"):
                answer = await app.send(method, token=None, Remote_User="ann", **headers)
                assert _is_refused(answer, 403, "AccessDenied"), (method, headers)
            assert await _connect(app, None, Remote_User="ann", **headers) == 403
        assert await _connect(app, None, Remote_User="ann") == 403
        assert app.seen == []

        assert await _connect(app, None, Remote_User="ann", Origin=same) == 101
        page = await app.send("POST", token=None, Remote_User="ann", Origin=same)
        program = await app.send("POST", token=None, Remote_User="ann")

    assert (page.status, program.status) == (200, 200)


async def test_behind_https_the_cookie_is_secure_and_bound_to_its_host() -> None:
    options = AccessOptions(
        token=TOKEN, proxies=parse_networks(["127.0.0.1"]), hosts=frozenset({"clew.example"})
    )
    outside: dict[str, Any] = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "clew.example"}
    async with serve(options) as app:
        login = await app.send(path=app.access.make_login_path(), token=None, **outside)
        cookie = login.headers["set-cookie"].split(";")[0]
        good = await app.send(
            "POST", token=None, Cookie=cookie, Origin="https://clew.example", **outside
        )
        downgraded = await app.send(
            "POST", token=None, Cookie=cookie, Origin="http://clew.example", **outside
        )

    assert cookie.startswith("__Host-clew-443=")
    assert "Secure" in login.headers["set-cookie"]
    assert (good.status, downgraded.status) == (200, 403)


async def _connect(app: GuardedApp, token: str | None, **headers: Any) -> int:
    """Ask for a WebSocket and return the status."""
    answer = await app.send(
        path="/api/v1/socket",
        token=token,
        Connection="Upgrade",
        Upgrade="websocket",
        Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
        **headers,
    )
    return answer.status


async def _sign_in(app: GuardedApp) -> str:
    """Return the cookie of the owner."""
    answer = await app.send(path=app.access.make_login_path(), token=None)
    return answer.headers["set-cookie"].split(";")[0]


async def test_with_a_damaged_users_file_only_the_owner_gets_in(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    token = UsersFile(path).add("alice")
    path.write_text(path.read_text() + "x")
    async with serve(AccessOptions(token=TOKEN, users_file=path)) as app:
        assert (await app.send()).status == 200
        assert (await app.send(token=token)).status == 401


async def test_a_broken_request_leaves_no_token_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(AccessOptions(token=TOKEN)) as app:
        head = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer {TOKEN}\r\n\r\n"
        answer = await app.send_raw(head.encode())

    assert answer.status == 400
    assert caplog.text == ""
