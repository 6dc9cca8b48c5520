"""What runs agents keeps the contract of every runner."""

from pathlib import Path

import pytest

from clew.core.errors import ProviderRejected
from clew.core.tasks import TaskKind
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedReply
from clew.runtime.protocol import TaskRequest
from clew.sdk.agent_runner import AgentRunner
from clew.sdk.session import InteractiveSession
from clew.testing.runners import RUNNER_CHECKS, RunnerCheck, RunnerHarness
from tests.sdk.agent_scripts import ScriptedAgents
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-4")]


@pytest.mark.parametrize("check", RUNNER_CHECKS)
async def test_agents_in_the_process_keep_the_contract(check: RunnerCheck, tmp_path: Path) -> None:
    place = Place(tmp_path)
    begun: ScriptedReply = [TextChunk("begun"), Pause()]
    provider = ScriptedAgents(
        {
            "short": ["done"] * 3,
            "endless": [begun] * 3,
            "failing": [ProviderRejected("no such model", provider="scripted")],
        }
    )

    def request(prompt: str) -> TaskRequest:
        return TaskRequest(kind=TaskKind.AGENT, prompt=prompt)

    async with InteractiveSession(
        provider=provider,
        cwd=place.project,
        model="m",
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    ) as session:
        setup = session.parts.agents.setup
        await check(
            RunnerHarness(
                runner=AgentRunner(setup),
                short=request("short"),
                endless=request("endless"),
                failing=request("failing"),
            )
        )
