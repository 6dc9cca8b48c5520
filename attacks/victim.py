"""A session that is attacked by its model server; reports what became of it as JSON.

`python -m attacks.victim API URL IDLE_TIMEOUT`, run by `attacks/hostile_servers.py`.
"""

import resource
import sys

import anyio
import msgspec

from clew import Session
from clew.core.errors import ClewError
from clew.testing.provider_harness import AdapterParams, FakeSleep, instant_retry
from clew.tools.builtin import builtin_tools
from tests.providers.harnesses import HARNESSES

RECOVERY = "does the session still answer"
"""The second prompt, which the server answers properly."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a session."""

    first: str
    """The answer to the first prompt, shortened, or the class of its error and its text."""
    second: str
    growth: int
    """Kilobytes of memory that the first prompt cost at its peak."""


async def main(api: str, url: str, idle_timeout: float) -> None:
    """Send two prompts: the first is attacked, the second is not."""
    harness = HARNESSES[api]
    retry = instant_retry(FakeSleep(), attempts=2)
    provider = harness.make(AdapterParams(url=url, idle_timeout=idle_timeout, retry=retry))
    async with Session(provider, model=harness.model, tools=builtin_tools()) as session:
        before = _peak()
        first = await _ask(session, "begin")
        growth = _peak() - before
        second = await _ask(session, RECOVERY)
    await provider.aclose()
    report = Report(first=first[:300], second=second[:300], growth=growth)
    sys.stdout.buffer.write(msgspec.json.encode(report))


async def _ask(session: Session, prompt: str) -> str:
    try:
        return await session.run(prompt)
    except ClewError as error:
        return f"{type(error).__name__}: {error}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], float(sys.argv[3]))
