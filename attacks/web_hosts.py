"""Web hosts: URLs that imitate an allowed host, hide a denied one, or lead to a private network."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attacks.corpus import Outcome, Status, select_sample
from clew.core.permissions import PermissionMode, Verdict
from clew.permissions.rules import parse_rule
from clew.session.gate import Gate
from clew.tools.builtin.webfetch import webfetch_tool
from clew.tools.protocol import ToolContext
from clew.tools.web.protocol import FetchLimits

NAME = "web-hosts"
TARGET = "no request to a host that you did not allow, none to a private network"

ALLOW, DENY = "WebFetch(domain:docs.example.org)", "WebFetch(domain:evil.example)"
MODES = (PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS)
NOT_ALLOWED = (
    "https://attacker.example/?q=data",
    "https://docs.example.org.attacker.example/",
    "https://docs.example.org@attacker.example/",
    "https://docs.example.org:443@attacker.example/",
    "https://attacker.example/docs.example.org",
    "https://attacker.example#docs.example.org",
    "https://attacker.example?docs.example.org",
    "https://attacker.example\\docs.example.org",
    "https://docs.example.org\\@attacker.example",
    "https://docs.example.org%2f@attacker.example",
    "https://docs.example.org%00.attacker.example",
    "https://docs.example.org\t.attacker.example",
    "https://x.docs.example.org/",
    "https://docs-example.org/",
    "https://docsxexample.org/",
    "https://docs.example.org．attacker.example/",
    "https://dоcs.example.org/",
    "//docs.example.org.attacker.example",
    "HTTPS://ATTACKER.EXAMPLE/",
    "http:attacker.example",
    "ftp://docs.example.org/",
    "file:///etc/passwd",
    "javascript:fetch('https://docs.example.org')",
    "",
)
"""In every mode but one, none of these runs without a question."""
DENIED = (
    "https://evil.example/",
    "https://EVIL.example/",
    "https://evil.example./",
    "https://evil.example:8443/x",
    "http://evil.example/",
    "https://a.b.evil.example/",
    "https://ｅvil.example/",
    "https://user@evil.example/",
    "https://docs.example.org@evil.example/",
)
"""None of these runs, and nobody is asked, in any mode."""
PRIVATE = (
    *("http://localhost/", "http://a.localhost/", "http://127.0.0.1/", "http://127.1/"),
    *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/"),
    *("http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/"),
    *("http://10.1.2.3/", "http://172.16.0.1/", "http://192.168.1.1/", "http://100.64.0.1/"),
    *("http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://[fd00:ec2::254]/"),
    *("http://168.63.129.16/", "http://[2002:7f00:1::]/", "http://198.18.0.1/"),
    *("http://rebind.example/", "http://metadata.example/", "http://mixed.example/"),
    *("http://public.example:22/", "http://public.example:6667/", "http://u:p@public.example/"),
)
"""None of these is reached, even in the mode that asks about nothing."""
_NAMES = {
    "rebind.example": ["127.0.0.1"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["93.184.216.34", "10.0.0.1"],
}


@dataclass(frozen=True, slots=True)
class Case:
    """A URL in a mode."""

    kind: str
    url: str
    mode: PermissionMode


CASES = (
    *(Case("not allowed", url, mode) for url in NOT_ALLOWED for mode in MODES),
    *(Case("denied", url, mode) for url in DENIED for mode in PermissionMode),
    *(Case("private", url, PermissionMode.BYPASS) for url in PRIVATE),
)


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Ask the gate about each URL; fetch those of private networks."""
    with tempfile.TemporaryDirectory() as folder:
        context = ToolContext(cwd=Path(folder))
        for case in select_sample(CASES, sample):
            name = f"{case.kind}: {case.url!r} in {case.mode} mode"
            if case.kind == "private":
                problem = await _fetch(case.url, context)
            else:
                problem = _judge(case, context)
            yield Outcome(name, Status.FAILED if problem else Status.HELD, problem)


def _judge(case: Case, context: ToolContext) -> str:
    gate = Gate(
        cwd=context.cwd, mode=case.mode, allow=(parse_rule(ALLOW),), deny=(parse_rule(DENY),)
    )
    verdict = gate.decide(webfetch_tool().access({"url": case.url}, context)).verdict
    if case.kind == "denied":
        return "" if verdict is Verdict.DENY else f"the verdict is {verdict}"
    return "" if verdict is not Verdict.ALLOW else "it runs without a question"


async def _fetch(url: str, context: ToolContext) -> str:
    reached: list[str] = []

    async def look_up(host: str, port: int) -> Sequence[str]:
        if host not in _NAMES:
            reached.append(f"{host}:{port}")
            raise OSError(-2, "Name or service not known")
        return _NAMES[host]

    output = await webfetch_tool(FetchLimits(lookup=look_up)).run({"url": url}, context)
    if not output.failed:
        return "it was fetched"
    return f"{', '.join(reached)} was looked up" if reached else ""
