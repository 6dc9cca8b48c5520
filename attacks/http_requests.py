"""Requests that must not get in: tokens, hosts, origins, paths and broken HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass

from attacks.served_victim import TOKEN
from clew.sdk.server_values import BASE
from clew.server.routes import ROUTES

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`javascript:alert(1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """The server that is attacked."""

    port: int
    session_id: str
    cookie: str
    """Of a browser that has signed in."""
    pid: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that must be refused, and reach nothing."""

    name: str
    data: bytes


def make_request(
    victim: Victim, first: str, headers: dict[str, str] | None = None, body: bytes = b""
) -> bytes:
    """Return a request; an empty header is left out."""
    lines = {"Host": f"127.0.0.1:{victim.port}", "Connection": "close"}
    if body:
        lines |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return f"{first} HTTP/1.1\r\n{head}\r\n".encode("utf-8", "surrogateescape") + body


def list_refused(victim: Victim) -> list[Refused]:
    """Return every request that must be refused."""
    return [
        *_list_tokens(victim),
        *_list_hosts(victim),
        *_list_origins(victim),
        *_list_paths(victim),
        *_list_broken(victim),
    ]


def _list_tokens(victim: Victim) -> Iterator[Refused]:
    """Every route without a token, and with one that is wrong."""
    name, _, value = victim.cookie.partition("=")
    version, end, code, _ = value.split(".")
    wrong = {
        "no token": {},
        "empty token": {"Authorization": "Bearer "},
        "wrong token": {"Authorization": f"Bearer {'x' * len(TOKEN)}"},
        "almost the token": {"Authorization": f"Bearer {TOKEN[:-1]}"},
        "two tokens": {"Authorization": f"Bearer {TOKEN}, Bearer x"},
        "basic": {"Authorization": "Basic b3duZXI6b3duZXI="},
        "token as cookie": {"Cookie": f"{name}={TOKEN}", "Sec-Fetch-Site": "same-origin"},
        "longer cookie": {"Cookie": f"{name}={version}.9{end}.{code}.owner"},
        "cookie of another": {"Cookie": f"{name}={version}.{end}.{code}.ann"},
        "proxy header": {"Remote-User": "owner", "X-Forwarded-User": "owner"},
        "forwarded from here": {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
    }
    for route in ROUTES:
        if route.open_to_all:
            continue
        path = BASE + route.path.replace("{session_id}", victim.session_id)
        path = path.replace("{", "").replace("}", "")
        for case, headers in wrong.items():
            data = make_request(victim, f"{route.method} {path}", headers)
            yield Refused(f"{case}: {route.name}", data)
        data = make_request(victim, f"{route.method} {path}?token={TOKEN}&access_token={TOKEN}")
        yield Refused(f"token in the address: {route.name}", data)


def _list_hosts(victim: Victim) -> Iterator[Refused]:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for host in (
        "evil.example",
        f"evil.example:{victim.port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::1",
        "localhost,evil.example",
        "",
    ):
        data = make_request(victim, f"GET {BASE}/sessions", {**bearer, "Host": host})
        yield Refused(f"host {host or 'missing'}", data)


def _list_origins(victim: Victim) -> Iterator[Refused]:
    own = f"http://127.0.0.1:{victim.port}"
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for case in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": own.replace("http", "https", 1)},
        {"Origin": f"http://localhost:{victim.port}"},
        {"Origin": f"{own}.evil.example"},
        {"Origin": f"{own}@evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {},
    ):
        headers = {**case, "Cookie": victim.cookie}
        what = " ".join(f"{name} {value}" for name, value in case.items()) or "no origin"
        post = f"POST {BASE}/sessions/{victim.session_id}/prompts"
        yield Refused(f"{what}: prompt", make_request(victim, post, headers, b'{"text":"hi"}'))
        socket = f"GET {BASE}/sessions/{victim.session_id}/socket"
        yield Refused(f"{what}: socket", make_request(victim, socket, {**headers, **upgrade}))


def _list_paths(victim: Victim) -> Iterator[Refused]:
    target = f"{BASE}/sessions/{victim.session_id}"
    for path in (
        f"/page/..{target}",
        f"/page/%2e%2e{target}",
        f"/page/%2e%2e%2f{target[1:]}",
        f"/page/..%5c..{target}",
        f"/{target}",
        f"//127.0.0.1{target}",
        f"http://127.0.0.1{target}",
        f"{target}/../../sessions",
        f"{BASE}/health/../sessions",
        f"{BASE}/health%2f..%2fsessions",
        f"{BASE}/health;/../sessions",
        f"{BASE}/health/",
        f"{BASE}/health%00/sessions",
        f"/login/..{target}",
        f"/API/V1/sessions/{victim.session_id}",
        f"{BASE}%2fsessions",
        "/page/%00",
        "/page/x/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/page/x/....//....//etc/passwd",
        "/page/x//etc/passwd",
        "/page/%c0%ae%c0%ae/etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/../../../../etc/passwd",
        "/etc/passwd",
        "/.git/config",
        f"{target}%0d%0aSet-Cookie:%20a=b",
    ):
        for method in ("GET", "POST"):
            yield Refused(f"path {method} {path}", make_request(victim, f"{method} {path}"))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for name in ("..%2f..%2fetc%2fpasswd", "%2e%2e", "a%00b", "..%5c", "%ff", "x" * 4_000, "%0a"):
        data = make_request(victim, f"GET {BASE}/sessions/{name}", bearer)
        yield Refused(f"id {name[:40]} with the token", data)


def _list_broken(victim: Victim) -> Iterator[Refused]:
    host = f"Host: 127.0.0.1:{victim.port}\r\n"
    inner = f"GET {BASE}/sessions HTTP/1.1\r\n{host}Authorization: Bearer x\r\n\r\n"
    get = f"GET {BASE}/sessions HTTP/1.1\r\n{host}"
    post = f"POST {BASE}/sessions HTTP/1.1\r\n{host}"
    for name, text in {
        "two lengths": f"{post}Content-Length: 0\r\nContent-Length: 60\r\n\r\n{inner}",
        "length and chunks": (
            f"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"
        ),
        "unknown coding": f"{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "negative length": f"{post}Content-Length: -1\r\n\r\n",
        "length with plus": f"{post}Content-Length: +4\r\n\r\nabcd",
        "chunk of odd size": f"{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "folded header": f"{get}Authorization:\r\n Bearer x\r\n\r\n",
        "space before colon": f"GET {BASE}/sessions HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "two hosts": f"{get}Host: evil.example\r\n\r\n",
        "NUL in a header": f"{get}X: a\x00b\r\n\r\n",
        "long line": f"GET /{'a' * 70_000} HTTP/1.1\r\n{host}\r\n",
        "long header": f"{get}X: {'a' * 70_000}\r\n\r\n",
        "many headers": get + "".join(f"X-{number}: a\r\n" for number in range(20_000)) + "\r\n",
        "HTTP/0.9": f"GET {BASE}/sessions\r\n\r\n",
        "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "no version": "GET\r\n\r\n",
        "CONNECT": f"CONNECT 127.0.0.1:{victim.port} HTTP/1.1\r\n{host}\r\n",
        "TRACE": f"TRACE {BASE}/sessions HTTP/1.1\r\n{host}\r\n",
        "unknown method": f"HACK {BASE}/sessions HTTP/1.1\r\n{host}\r\n",
    }.items():
        yield Refused(f"HTTP: {name}", text.encode())
    yield Refused("HTTP: TLS hello", bytes.fromhex("16030100f1010000ed0303") + bytes(230))
    yield Refused("HTTP: zeros", bytes(100_000))
