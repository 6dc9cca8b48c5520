"""What a tool call reports while it runs, and what an abort keeps of it."""

from pathlib import Path

import anyio
import pytest

from clew import Session, tool
from clew.core.errors import AbortError
from clew.core.events import ToolEnded, ToolProgress
from clew.core.messages import Role
from clew.core.permissions import PermissionMode, Risk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.session.tool_progress import ProgressThrottle
from clew.tools.builtin import builtin_tools
from clew.tools.protocol import ToolContext
from tests.event_buses import bus_for
from tests.session.scene import FACTS

pytestmark = [pytest.mark.anyio, pytest.mark.req("TUI-2")]


def test_lines_are_throttled_and_repeated_ones_left_out() -> None:
    now = 0.0
    lines: list[str] = []
    throttle = ProgressThrottle(lines.append, clock=lambda: now)

    for step in range(100):
        now = step / 100
        throttle.report(f"line {step // 2}")
    throttle.report("")

    assert 9 <= len(lines) <= 12
    assert len(set(lines)) == len(lines)


async def test_an_aborted_call_keeps_the_output_that_it_had_without_secrets() -> None:
    running = anyio.Event()
    secret = "correct-horse-battery"

    @tool(risk=Risk.INSPECT)
    async def build(context: ToolContext) -> str:
        """Build."""
        assert context.progress is not None
        context.progress.get_partial = lambda: f"step 1\nstep 2 {secret}\n"
        context.progress.report(f"step 2 {secret}")
        running.set()
        await anyio.sleep_forever()
        return "never"

    heard: list[object] = []
    provider = ScriptedProvider([call_reply(("build", {}))], FACTS)
    bus = bus_for(heard.append)
    async with Session(
        provider, model="m", tools=[build], event_bus=bus, redact_values=(secret,)
    ) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    with pytest.raises(AbortError):
                        await session.run("go")

                tasks.start_soon(run)
                await running.wait()
                session.abort()

        (progress,) = [event for event in heard if isinstance(event, ToolProgress)]
        (ended,) = [event for event in heard if isinstance(event, ToolEnded)]
        (result,) = [message for message in session.get_history() if message.role is Role.TOOL]
        assert progress.name == "build"
        assert progress.line.startswith("step 2 ")
        assert ended.display == result.results[0].text
        assert "aborted" in ended.display
        assert "step 1\nstep 2" in ended.display
        assert secret not in progress.line + ended.display


KEY = "\n".join(
    ["-----BEGIN RSA PRIVATE KEY-----", *("MIIEpAIBAAKCAQEA7bq1" * 3 for _ in range(20))]
)
TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("reported", "hidden"),
    [(KEY, "MIIEpA"), (f"{'word ' * 56}{TOKEN} end", TOKEN[:12]), (f"first\n{TOKEN}", TOKEN[:12])],
)
async def test_a_secret_is_not_shown_in_part(reported: str, hidden: str) -> None:
    @tool(risk=Risk.INSPECT)
    def build(context: ToolContext) -> str:
        """Build."""
        assert context.progress is not None
        context.progress.report(reported)
        return "done"

    heard: list[object] = []
    provider = ScriptedProvider([call_reply(("build", {})), "ok"], FACTS)
    bus = bus_for(heard.append)
    async with Session(provider, model="m", tools=[build], event_bus=bus) as session:
        await session.run("go")

    (progress,) = [event for event in heard if isinstance(event, ToolProgress)]
    assert hidden not in progress.line
    assert "\n" not in progress.line
    assert len(progress.line) <= 300


async def test_a_key_that_a_command_prints_is_not_shown_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    heard: list[ToolProgress] = []

    def listen(event: object) -> None:
        if isinstance(event, ToolProgress):
            heard.append(event)
            (tmp_path / "seen").touch()

    command = "cat key; until [ -e seen ]; do sleep 0.01; done"
    provider = ScriptedProvider([call_reply(("Bash", {"command": command})), "ok"], FACTS)
    async with Session(
        provider,
        model="m",
        tools=builtin_tools(),
        event_bus=bus_for(listen),
        cwd=tmp_path,
        gate=Gate(cwd=tmp_path, mode=PermissionMode.BYPASS),
    ) as session:
        with anyio.fail_after(60):
            await session.run("go")

    assert "redacted" in heard[0].line
    assert not any("MIIEpA" in event.line for event in heard)


async def test_a_call_that_takes_too_long_keeps_its_output_too() -> None:
    @tool(risk=Risk.INSPECT)
    async def build(context: ToolContext) -> str:
        """Build."""
        assert context.progress is not None
        context.progress.get_partial = lambda: "half"
        await anyio.sleep_forever()
        return "never"

    provider = ScriptedProvider([call_reply(("build", {})), "sorry"], FACTS)
    async with Session(provider, model="m", tools=[build], tool_timeout=0.01) as session:
        await session.run("go")

        (result,) = [message for message in session.get_history() if message.role is Role.TOOL]
        assert "ended after 0.01 seconds" in result.results[0].text
        assert result.results[0].text.endswith("half")
