"""Where a request comes from: what proxies may say, and what a browser reveals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import AccessDenied, ConfigError
from clew.sdk.remote.connection import is_loopback
from clew.server.access.origins import (
    Client,
    check_host,
    check_origin,
    find_client,
    is_same_origin,
    parse_networks,
)
from clew.server.access.tokens import CookieSigner, hash_token

pytestmark = pytest.mark.req("SRV-3")

_HEADERS = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via")
PROXIES = parse_networks(["10.0.0.0/8", "::1"])


@given(st.dictionaries(st.sampled_from(_HEADERS), st.text(max_size=40)))
def test_headers_of_a_client_that_is_no_trusted_proxy_change_nothing(
    forwarded: dict[str, str],
) -> None:
    headers = {"Host": "localhost:1", **forwarded}

    found = find_client("192.0.2.1", "http", headers, PROXIES)

    assert found == Client(address="192.0.2.1", scheme="http", host="localhost:1")


@given(st.lists(st.ip_addresses(v=4).map(str), max_size=5))
def test_the_address_is_the_last_one_that_no_trusted_proxy_has(hops: list[str]) -> None:
    chain = [*hops, "192.0.2.7", "10.1.1.1", "10.2.2.2"]

    found = find_client("10.0.0.1", "http", {"X-Forwarded-For": ", ".join(chain)}, PROXIES)

    assert (found.address, found.proxied) == ("192.0.2.7", True)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X-Forwarded-For": "not an address"}, "10.0.0.1"),
        ({"X-Forwarded-For": "6.6.6.6, x, 10.1.1.1"}, "10.1.1.1"),
        ({}, "10.0.0.1"),
    ],
)
def test_an_address_that_a_proxy_cannot_mean_is_ignored(
    headers: dict[str, str], expected: str
) -> None:
    assert find_client("10.0.0.1", "http", headers, PROXIES).address == expected


def test_a_proxy_is_known_by_its_ipv4_address_on_an_ipv6_socket() -> None:
    assert find_client("::ffff:10.0.0.1", "http", {}, PROXIES).proxied


@given(st.text(max_size=60))
def test_only_names_of_the_server_pass_as_host(host: str) -> None:
    client = Client(address="::1", scheme="http", host=host + ".example")

    with pytest.raises(AccessDenied):
        check_host(client, frozenset({"clew.test"}))


@pytest.mark.parametrize("host", ["CLEW.test", "clew.test.", "clew.test:443"])
def test_a_name_of_the_server_has_several_spellings(host: str) -> None:
    check_host(Client(address="::1", scheme="https", host=host), frozenset({"clew.test"}))


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://localhost", "localhost:80", "http"),
        ("https://clew.test", "clew.test", "https"),
        ("https://clew.test:443", "CLEW.test", "https"),
        ("http://[::1]:8765", "[::1]:8765", "http"),
    ],
)
def test_an_origin_is_the_same_with_and_without_the_usual_port(
    origin: str, host: str, scheme: str
) -> None:
    assert is_same_origin(origin, Client(address="::1", scheme=scheme, host=host))


def test_a_read_with_the_cookie_needs_no_origin_but_a_change_does() -> None:
    client = Client(address="::1", scheme="http", host="localhost")

    check_origin(client, "GET", {})
    check_origin(client, "POST", {"Sec-Fetch-Site": "same-origin"})
    with pytest.raises(AccessDenied, match="Authorization"):
        check_origin(client, "DELETE", {})


def test_a_network_with_a_mistake_is_refused() -> None:
    with pytest.raises(ConfigError, match="trusted proxy"):
        parse_networks(["10.0.0.0/99"])


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


@given(st.data())
def test_no_changed_cookie_is_accepted(data: st.DataObject) -> None:
    hashes = {"ann": hash_token("a" * 40), "bob": hash_token("b" * 40)}
    signer = CookieSigner("s" * 40)
    cookie = signer.sign("ann", hashes["ann"], now=1_000)
    place = data.draw(st.integers(0, len(cookie) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=126))
    changed = cookie[:place] + other + cookie[place + 1 :]

    assert signer.verify(cookie, hashes, now=1_001) == "ann"
    assert changed == cookie or signer.verify(changed, hashes, now=1_001) is None
    assert CookieSigner("t" * 40).verify(cookie, hashes, now=1_001) is None
    assert signer.verify(cookie, hashes, now=10**9) is None
