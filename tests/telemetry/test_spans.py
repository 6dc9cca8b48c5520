"""What a tracing backend gets: spans and metrics by the GenAI conventions, and no secrets."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from clew.config.sections import TelemetrySection
from clew.config.settings import Settings
from clew.context.policy import ContextPolicy
from clew.core.errors import ProviderRejected
from clew.core.events import BackgroundTaskEvent, RunFailed, TaskStage, UserMessage
from clew.core.ids import SessionId
from clew.core.permissions import PermissionMode, Risk
from clew.core.tasks import TaskKind, TaskState
from clew.core.usage import Usage
from clew.process import trace_variables
from clew.providers.protocol import Request, TextChunk, UsageChunk
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    call_reply,
    text_reply,
)
from clew.sdk.client import PromptInput
from clew.sdk.telemetry import CONTENT_VARIABLE, find_telemetry, wants_content
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.model_call import trace_chunks
from clew.session.session import Session
from clew.telemetry.tracer import SessionTelemetry
from clew.tools.builtin.bash import bash_tool
from clew.tools.builtin.glob import glob_tool
from clew.tools.builtin.grep import grep_tool
from clew.tools.function import tool
from tests.sdk.places import Place

PLAIN_SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
pytestmark = [pytest.mark.anyio, pytest.mark.req("OTL-1")]

SECRET = "sk-ant-" + "api03-" + "a1B2c3D4" * 6
TOKENS = "gen_ai.client.token.usage"
USAGE = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=60, cache_write_tokens=20)


@dataclass
class Backend:
    """Collects spans and metrics in memory."""

    content: bool = False
    environ: Mapping[str, str] | None = None
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def __post_init__(self) -> None:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = SessionTelemetry(
            content=self.content, environ=self.environ, tracers=tracers, meters=meters
        )

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        return self.spans.get_finished_spans()

    def of(self, operation: str) -> list[ReadableSpan]:
        return [one for one in self.finished if one.name.split()[0] == operation]

    def tree(self) -> dict[str, Any]:
        """Return the names of the spans, nested, in the order in which they started."""
        known = {one.context.span_id for one in self.finished if one.context}
        roots = [one for one in self.finished if not one.parent or one.parent.span_id not in known]
        return self._children(roots)

    def _children(self, spans: list[ReadableSpan]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for span in sorted(spans, key=lambda one: one.start_time or 0):
            assert span.context is not None
            below = [
                one
                for one in self.finished
                if one.parent is not None and one.parent.span_id == span.context.span_id
            ]
            name = span.name
            while name in tree:
                name += "'"
            tree[name] = self._children(below)
        return tree

    def metrics(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


async def test_a_turn_with_a_tool_a_subagent_and_a_compaction_is_one_tree(place: Place) -> None:
    backend = Backend()
    place.write("a.txt", "hello\n")
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "a.txt"}), usage=USAGE),
        call_reply(("Agent", {"prompt": "look"}), usage=USAGE),
        text_reply("I looked", usage=USAGE),
        text_reply("yes " * 400, usage=USAGE),
        text_reply("sure", usage=USAGE),
        text_reply("# Summary\nWe looked at a file.", usage=USAGE),
    ]
    policy = ContextPolicy(preserve_recent_turns=1)
    async with place.session(
        replies, telemetry=backend.telemetry, agents=True, policy=policy
    ) as session:
        result = await session.run("go")
        await session.run("sure?")
        await session.session.compact(force=True)
        spending = session.session.journal.spending

    assert backend.tree() == {
        "invoke_agent clew": {
            "chat m": {},
            "execute_tool Read": {},
            "chat m'": {},
            "execute_tool Agent": {"invoke_agent general-purpose": {"chat m": {}}},
            "chat m''": {},
        },
        "invoke_agent clew'": {"chat m": {}},
        "clew.compact": {"chat m": {}},
    }
    chats = [attributes_of(one) for one in backend.of("chat")]
    assert sum(one["gen_ai.usage.input_tokens"] for one in chats) == spending.usage.input_tokens
    assert sum(one["gen_ai.usage.output_tokens"] for one in chats) == spending.usage.output_tokens
    assert {one["gen_ai.usage.cache_read.input_tokens"] for one in chats} == {60}
    assert {one["gen_ai.usage.cache_creation.input_tokens"] for one in chats} == {20}
    (compact,) = backend.of("clew.compact")
    assert attributes_of(compact)["clew.compact.trigger"] == "manual"
    first = next(one for one in backend.of("invoke_agent") if one.name.endswith(" clew"))
    assert result.usage is not None
    assert attributes_of(first)["gen_ai.usage.input_tokens"] == result.usage.prompt_tokens
    assert attributes_of(first)["clew.context.used"] == result.context_state.used_tokens


async def test_spans_have_the_attributes_of_the_conventions(place: Place) -> None:
    backend = Backend()
    place.write("a.txt", "hello\n")
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "a.txt"}), usage=USAGE),
        "done",
    ]
    async with place.session(replies, telemetry=backend.telemetry) as session:
        await session.run("go")
        session_id = session.get_session_id()

    chat, _ = backend.of("chat")
    (executed,) = backend.of("execute_tool")
    (run,) = backend.of("invoke_agent")
    assert (chat.name, chat.kind) == ("chat m", SpanKind.CLIENT)
    found = attributes_of(chat)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "scripted"
    assert found["gen_ai.request.model"] == "m"
    assert found["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert found["gen_ai.conversation.id"] == session_id
    found = attributes_of(executed)
    assert found["gen_ai.operation.name"] == "execute_tool"
    assert (found["gen_ai.tool.name"], found["gen_ai.tool.type"]) == ("Read", "function")
    found = attributes_of(run)
    assert (found["gen_ai.operation.name"], found["gen_ai.agent.name"]) == ("invoke_agent", "clew")


async def test_metrics_count_tokens_and_seconds_and_the_context(place: Place) -> None:
    backend = Backend()
    async with place.session(
        [text_reply("hi", usage=USAGE)], telemetry=backend.telemetry
    ) as session:
        await session.run("go")
        state = session.get_context_state()

    found = backend.metrics()
    tokens = {one.attributes["gen_ai.token.type"]: one.sum for one in found[TOKENS]}
    assert tokens == {"input": 100, "output": 10}
    assert [one.count for one in found["gen_ai.client.operation.duration"]] == [1]
    assert [one.value for one in found["clew.context.used"]] == [state.used_tokens]
    assert found["clew.context.utilization"][0].value == state.used_tokens / state.max_tokens


async def test_failures_are_errors_without_their_text(place: Place) -> None:
    backend = Backend()
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "missing.txt"})),
        ProviderRejected("the words of the user", provider="scripted"),
    ]
    async with place.session(replies, telemetry=backend.telemetry) as session:
        with pytest.raises(ProviderRejected):
            await session.run("go")

    failed = {one.name: attributes_of(one).get("error.type") for one in backend.finished}
    assert failed["invoke_agent clew"] == "ProviderRejected"
    assert failed["chat m"] == "ProviderRejected"
    assert failed["execute_tool Read"]
    assert "the words of the user" not in dump(backend)


async def test_an_aborted_run_ends_all_its_spans(place: Place) -> None:
    backend, pause = Backend(), Pause()
    replies: list[ScriptedReply] = [[UsageChunk(USAGE), TextChunk("Half"), pause]]
    async with (
        place.session(replies, telemetry=backend.telemetry) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.run, "go")
        await pause.reached.wait()
        session.abort()

    ended = {one.name: attributes_of(one).get("error.type") for one in backend.finished}
    assert ended == {"invoke_agent clew": "cancelled", "chat m": "cancelled"}


async def test_a_prompt_that_is_cancelled_while_it_waits_leaves_the_run_open(place: Place) -> None:
    backend, pause = Backend(), Pause()
    replies: list[ScriptedReply] = [[UsageChunk(USAGE), TextChunk("Half"), pause]]
    async with (
        place.session(replies, telemetry=backend.telemetry) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.run, "go")
        await pause.reached.wait()
        await session.submit(PromptInput(text="later"))
        assert await session.cancel_queue()
        await anyio.wait_all_tasks_blocked()
        before = backend.finished
        session.abort()

    assert before == ()
    assert {one.name for one in backend.finished} == {"invoke_agent clew", "chat m"}


@pytest.mark.parametrize("content", [False, True])
async def test_content_is_recorded_on_request_only_and_never_with_secrets(
    place: Place, *, content: bool
) -> None:
    backend = Backend(content=content)
    place.write("a.txt", f"hello key={SECRET}\n")
    replies: list[ScriptedReply] = [
        call_reply(("Read", {"file_path": "a.txt"})),
        f"It says {SECRET} and my-own-key",
    ]
    async with place.session(
        replies, telemetry=backend.telemetry, redact_values=["my-own-key"]
    ) as session:
        await session.run(f"my words, {SECRET}")

    text = dump(backend)
    assert SECRET not in text
    assert "my-own-key" not in text
    assert ("my words" in text, "It says" in text, "hello" in text) == (content,) * 3
    chat = attributes_of(backend.of("chat")[-1])
    assert ("gen_ai.input.messages" in chat) == content
    if content:
        (said,) = json.loads(chat["gen_ai.output.messages"])
        assert (said["role"], said["finish_reason"]) == ("assistant", "stop")


async def test_the_span_of_a_tool_is_current_in_the_tool_and_its_processes(place: Place) -> None:
    backend = Backend()
    seen: list[str] = []

    @tool(name="Look", risk=Risk.INSPECT)
    async def look() -> str:
        """Look."""
        seen.append(trace_variables()["TRACEPARENT"])
        return "ok"

    replies: list[ScriptedReply] = [
        call_reply(("Look", {}), ("Look", {})),
        call_reply(("Bash", {"command": "echo trace=$TRACEPARENT"})),
        "done",
    ]
    async with place.session(
        replies,
        telemetry=backend.telemetry,
        extra_tools=[look],
        permission_mode=PermissionMode.BYPASS,
    ) as session:
        before = trace_variables()
        await session.run("go")
        after = trace_variables()
        said = [one.results[0].text for one in session.get_messages() if one.results]

    spans = {
        format(one.context.span_id, "016x"): one.name for one in backend.finished if one.context
    }
    assert before == after == {}
    assert [spans[one.split("-")[2]] for one in seen] == ["execute_tool Look"] * 2
    assert len(set(seen)) == 2
    assert spans[said[-1].split("trace=")[1].split("-")[2]] == "execute_tool Bash"


async def test_searches_get_the_current_span_whatever_trace_the_process_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{'1' * 32}-{'2' * 16}-01")
    backend, note = Backend(), tmp_path / "note"
    program = tmp_path / "rg"
    program.write_text(f'#!/bin/sh\necho "$TRACEPARENT" >> {note}\n')
    program.chmod(0o755)
    replies: list[ScriptedReply] = [
        call_reply(("Grep", {"pattern": "x"}), ("Glob", {"pattern": "*.py"})),
        call_reply(("Bash", {"command": f"echo $TRACEPARENT >> {note}"})),
        "done",
    ]
    async with Session(
        ScriptedProvider(replies),
        model="m",
        cwd=tmp_path,
        tools=[grep_tool(str(program)), glob_tool(str(program)), bash_tool()],
        telemetry=backend.telemetry,
        gate=Gate(cwd=tmp_path, mode=PermissionMode.BYPASS),
    ) as session:
        await session.run("go")

    spans = {
        format(one.context.span_id, "016x"): one.name for one in backend.finished if one.context
    }
    names = sorted(spans[line.split("-")[2]] for line in note.read_text().splitlines())
    assert names == ["execute_tool Bash", "execute_tool Glob", "execute_tool Grep"]


async def test_hooks_and_calls_of_mcp_servers_belong_to_the_trace(place: Place) -> None:
    backend, note = Backend(), place.project / "hook"
    command = {"type": "command", "command": f"echo trace=$TRACEPARENT > {note}"}
    server = {"command": sys.executable, "args": ["-S", str(PLAIN_SERVER), "tracing"]}
    settings = {
        "mcpServers": {"plain": server},
        "mcp": {"startupWait": 60_000},
        "hooks": {"PreToolUse": [{"matcher": "mcp__plain__trace", "hooks": [command]}]},
    }
    place.clew_home.mkdir(exist_ok=True)
    (place.clew_home / "settings.json").write_text(json.dumps(settings))
    replies: list[ScriptedReply] = [call_reply(("mcp__plain__trace", {})), "done"]
    with anyio.fail_after(60):
        async with place.session(
            replies, telemetry=backend.telemetry, permission_mode=PermissionMode.BYPASS
        ) as session:
            await session.run("go")
            said = [one.results[0].text for one in session.get_messages() if one.results]

    spans = {
        format(one.context.span_id, "016x"): one.name for one in backend.finished if one.context
    }
    parents = [text.strip().removeprefix("trace=") for text in (said[0], note.read_text())]
    assert [spans[one.split("-")[2]] for one in parents] == ["execute_tool mcp__plain__trace"] * 2


async def test_a_background_agent_is_a_trace_of_its_own_with_a_link(place: Place) -> None:
    backend = Backend()
    task = TaskState(task_id="child", kind=TaskKind.AGENT, label="look", mode="background")
    parent, child = EventBus(), EventBus()
    parent.session_id, child.session_id = SessionId("parent"), SessionId("child")
    for bus in (parent, child):
        bus.on_own(backend.telemetry.listen(bus, tuple))

    parent.publish(UserMessage(text="go"))
    parent.publish(
        BackgroundTaskEvent(task_id="child", agent="scout", stage=TaskStage.CREATED, state=task)
    )
    child.publish(UserMessage(text="look"))
    child.publish(RunFailed(message="no"))
    parent.publish(RunFailed(message="no"))

    scout, run = backend.of("invoke_agent")
    assert (scout.name, run.name) == ("invoke_agent scout", "invoke_agent clew")
    assert scout.parent is None
    assert [link.context for link in scout.links] == [run.context]


async def test_an_agent_that_the_model_starts_in_the_background_is_linked(place: Place) -> None:
    backend = Backend()
    replies: list[ScriptedReply] = [
        call_reply(("Agent", {"prompt": "look", "background": True})),
        *["done"] * 4,
    ]
    async with place.session(replies, telemetry=backend.telemetry, agents=True) as session:
        ended = anyio.Event()

        def watch(event: BackgroundTaskEvent) -> None:
            if event.stage is TaskStage.COMPLETED:
                ended.set()

        session.on("background_task_event", watch)
        await session.run("go")
        with anyio.fail_after(60):
            await ended.wait()

    agent = next(one for one in backend.of("invoke_agent") if not one.name.endswith(" clew"))
    (link,) = agent.links
    spans = {one.context.span_id: one.name for one in backend.finished if one.context}
    assert agent.parent is None
    assert spans[link.context.span_id] == "execute_tool Agent"


async def test_a_run_belongs_to_the_trace_that_the_process_was_started_in(place: Place) -> None:
    environ = {"TRACEPARENT": f"00-{'1' * 32}-{'2' * 16}-01"}
    backend = Backend(environ=environ)
    async with place.session(["hi"], telemetry=backend.telemetry) as session:
        await session.run("go")

    (run,) = backend.of("invoke_agent")
    assert run.parent is not None
    assert (run.parent.trace_id, run.parent.span_id) == (int("1" * 32, 16), int("2" * 16, 16))


def dump(backend: Backend) -> str:
    return "".join(one.to_json() for one in backend.finished)


def test_nothing_is_traced_unless_the_program_or_the_settings_want_it() -> None:
    asked = Settings(telemetry=TelemetrySection(enabled=True))
    refused = Settings(telemetry=TelemetrySection(enabled=False))

    assert find_telemetry(Settings(), {}) is None
    assert find_telemetry(refused, {}) is None
    assert find_telemetry(asked, {"OTEL_SDK_DISABLED": "true"}) is None
    found = find_telemetry(asked, {})
    assert isinstance(found, SessionTelemetry)
    assert not found.content


@pytest.mark.parametrize(
    ("section", "variable", "wanted"),
    [
        (TelemetrySection(), "", False),
        (TelemetrySection(), "false", False),
        (TelemetrySection(), "true", True),
        (TelemetrySection(), "SPAN_AND_EVENT", True),
        (TelemetrySection(content=True), "", True),
    ],
)
def test_the_settings_or_the_variable_ask_for_content(
    section: TelemetrySection, variable: str, *, wanted: bool
) -> None:
    assert wants_content(Settings(telemetry=section), {CONTENT_VARIABLE: variable}) == wanted


async def test_a_session_that_is_not_traced_gets_the_chunks_of_its_provider(place: Place) -> None:
    async with place.session([]) as session:
        state = session.session.state
        request = Request(model="m", messages=())
        chunks = place.provider.stream(request)

        assert trace_chunks(state, chunks, request, purpose="turn") is chunks


@pytest.mark.slow("starts a process")
def test_a_program_without_opentelemetry_never_imports_it() -> None:
    code = (
        "import sys, anyio\n"
        "from clew import InteractiveSession\n"
        "from clew.providers.scripted import ScriptedProvider\n"
        "async def main():\n"
        "    async with InteractiveSession(provider=ScriptedProvider(['hi']), model='m') as one:\n"
        "        await one.run('go')\n"
        "anyio.run(main)\n"
        "assert 'opentelemetry' not in sys.modules\n"
        "assert 'clew.telemetry.tracer' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd="/")
