"""One client cannot take what the others need."""

import gzip
from contextlib import AsyncExitStack

import anyio
import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import RateLimited
from clew.server.access import AccessOptions, RequestLimits
from clew.server.access.limits import Bucket, Rate, RateLimiter, group_address
from tests.server.access.guarded_app import TOKEN, GuardedApp, read_answer, serve

pytestmark = pytest.mark.req("SRV-3")


def _options(**limits: float) -> AccessOptions:
    return AccessOptions(token=TOKEN, limits=RequestLimits(**limits))  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_body_that_is_too_large_is_refused_whether_or_not_its_length_is_told() -> None:
    async with serve(_options(max_body=1_000)) as app:
        exact = await app.send("POST", body=b"x" * 1_000)
        told = await app.send("POST", body=b"x" * 1_001)
        chunks = b"3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n"
        untold = await _send_head(app, "Transfer-Encoding: chunked", chunks)

    assert app.seen == ["owner POST 1000"]
    assert exact.status == 200
    assert (told.status, told.error) == (413, "RequestTooLarge")
    assert "1000 bytes" in told.message
    assert untold == 413


@pytest.mark.slow("waits for a time limit")
@pytest.mark.anyio
async def test_a_body_that_does_not_arrive_is_refused() -> None:
    async with serve(_options(body_seconds=0.01)) as app:
        assert await _send_head(app, "Content-Length: 10", b"x") == 408

    assert app.seen == []


@pytest.mark.anyio
async def test_a_compressed_body_is_refused_and_not_unpacked() -> None:
    async with serve(_options()) as app:
        answer = await app.send("POST", body=gzip.compress(b"x"), Content_Encoding="gzip")

    assert (answer.status, answer.error) == (400, "BodyBroken")
    assert app.seen == []


@pytest.mark.anyio
async def test_a_client_that_leaves_in_the_middle_of_a_body_does_no_harm() -> None:
    async with serve(_options()) as app:
        async with await _connect(app) as stream:
            await stream.send(_make_head("Content-Length: 10") + b"x")

        assert (await app.send()).status == 200


@pytest.mark.anyio
async def test_a_connection_that_sends_no_request_is_closed() -> None:
    async with serve(_options(head_seconds=0.01)) as app, await _connect(app) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: ")

        assert await _is_closed(stream)


@pytest.mark.anyio
async def test_a_client_that_sends_too_much_is_told_when_to_come_back() -> None:
    async with serve(_options(requests_per_second=0.001, request_burst=2)) as app:
        statuses = [(await app.send()).status for _ in range(2)]
        refused = await app.send()

    assert statuses == [200, 200]
    assert (refused.status, refused.error) == (429, "RateLimited")
    assert int(refused.headers["retry-after"]) > 100


@pytest.mark.anyio
async def test_wrong_tokens_are_limited_and_the_right_one_still_works() -> None:
    async with serve(_options(failures_per_second=0.001, failure_burst=3)) as app:
        statuses = [(await app.send(token="wrong")).status for _ in range(5)]

        assert statuses == [401, 401, 401, 429, 429]
        assert (await app.send()).status == 200


@pytest.mark.anyio
async def test_streams_are_limited_and_a_closed_one_makes_room() -> None:
    async with serve(_options(streams_per_user=2, max_streams=2)) as app:
        async with AsyncExitStack() as open_streams:
            for _ in range(2):
                await open_streams.enter_async_context(await _open_stream(app))
            refused = await app.send(path="/api/v1/events", Accept="text/event-stream")
            unsaid = await app.send(path="/api/v1/events")
            other = await app.send()
            app.hold.set()
        again = await app.send(path="/api/v1/events", Accept="text/event-stream")

    assert (refused.status, refused.error) == (429, "RateLimited")
    assert unsaid.status == 429
    assert other.status == 200
    assert again.status == 200


@pytest.mark.anyio
async def test_all_users_together_have_a_limit_of_streams() -> None:
    async with serve(_options(streams_per_user=9, max_streams=1)) as app, await _open_stream(app):
        refused = await app.send(path="/api/v1/events", Accept="text/event-stream")

    assert (refused.status, refused.error) == (503, "ServerBusy")
    assert "retry-after" in refused.headers


@pytest.mark.anyio
async def test_idle_connections_lock_nobody_out() -> None:
    async with serve(_options(max_connections=5)) as app, AsyncExitStack() as idle:
        streams = [await idle.enter_async_context(await _connect(app)) for _ in range(20)]

        assert (await app.send()).status == 200
        assert await _is_closed(streams[0])


@pytest.mark.anyio
async def test_a_server_full_of_accepted_connections_refuses_new_ones() -> None:
    async with serve(_options(max_connections=3)) as app, AsyncExitStack() as accepted:
        for _ in range(3):
            await accepted.enter_async_context(await _open_stream(app))
        stream = await accepted.enter_async_context(await _connect(app))
        with anyio.fail_after(60):
            refused = await read_answer(stream)

    assert (refused.status, refused.error) == (503, "ServerBusy")
    assert "content-security-policy" in refused.headers


@given(
    rate=st.builds(Rate, st.floats(0.1, 1_000), st.integers(1, 1_000)),
    waits=st.lists(st.floats(0, 60), max_size=30),
)
def test_no_more_requests_pass_than_the_rate_and_the_burst_allow(
    rate: Rate, waits: list[float]
) -> None:
    bucket: Bucket | None = None
    now, passed = 0.0, 0
    for wait in waits:
        now += wait
        bucket, seconds = rate.take(bucket, now)
        passed += not seconds

    assert passed <= rate.burst + rate.per_second * now + 1e-6


def test_a_client_may_send_again_after_the_time_that_it_was_told() -> None:
    now = [0.0]
    limiter = RateLimiter(Rate(0.5, 1), lambda: now[0])
    limiter.take("a")
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")

    limiter.take("b")
    now[0] += refused.value.retry_after
    limiter.take("a")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.0.0.1", "10.0.0.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2"),
    ],
)
def test_addresses_of_two_subscribers_are_two_clients(one: str, other: str) -> None:
    assert group_address(one) != group_address(other)


def test_an_ipv6_network_of_one_subscriber_is_one_client() -> None:
    assert group_address("2001:db8::1") == group_address("2001:db8::ffff:2")
    assert group_address("not an address") == "not an address"


async def _connect(app: GuardedApp) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", app.port)


async def _is_closed(stream: SocketStream) -> bool:
    """Wait until the server closes the connection."""
    with anyio.fail_after(60):
        try:
            await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True
    return False


async def _open_stream(app: GuardedApp) -> SocketStream:
    stream = await _connect(app)
    lines = ("Host: localhost", "Accept: text/event-stream", f"Authorization: Bearer {TOKEN}")
    request = "\r\n".join(("GET /api/v1/events HTTP/1.1", *lines, "", ""))
    await stream.send(request.encode())
    with anyio.fail_after(60):
        assert (await read_answer(stream)).status == 200
    return stream


async def _send_head(app: GuardedApp, header: str, body: bytes) -> int:
    return (await app.send_raw(_make_head(header) + body)).status


def _make_head(header: str) -> bytes:
    lines = ("POST /api/v1/thing HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}")
    return "\r\n".join((*lines, header, "", "")).encode()
