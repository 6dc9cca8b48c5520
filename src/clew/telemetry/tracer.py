"""Spans of runs, model calls, tool calls and compactions, with the OpenTelemetry API.

The span of a run is the current span while the run works, and the span of a tool call while that
works. So the spans of other libraries, and `TRACEPARENT` in the environment of processes, belong to
them without further ado. Events of a session are published in the task that does the work, which
is what makes this possible.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from opentelemetry import context as otel_context
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from clew._version import __version__
from clew.core.context_state import ContextState
from clew.core.events import (
    BackgroundTaskEvent,
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    ContextUpdated,
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ToolEnded,
    ToolStarted,
    UserMessage,
)
from clew.core.ids import RunId
from clew.core.results import ExecutionResult
from clew.providers.protocol import Chunk
from clew.telemetry.attributes import (
    AGENT_ID,
    AGENT_NAME,
    CONVERSATION,
    OPERATION,
    Attributes,
    describe_run_usage,
    encode_content,
    shorten_name,
)
from clew.telemetry.model_calls import CallSpan, Instruments, end_span
from clew.telemetry.protocol import ModelCall, TracedSession

logger = logging.getLogger(__name__)

_AGENT: Final = "clew"
_CANCELLED: Final = "cancelled"


class _Task(Struct, frozen=True):
    """A background task, as its parent announced it."""

    agent: str
    spawned_by: SpanContext | None
    """The span that started a task that runs in the background; None for one that is awaited."""


class SessionTelemetry:
    """Makes the spans and metrics of a session and its subagents; implements `Telemetry`.

    Args:
        content: Record prompts, answers, arguments and results, without secrets.
        environ: Where `TRACEPARENT` names the span that runs belong to, unless another one is
            current.
        tracers: Where spans go; by default the global provider.
        meters: Where metrics go; by default the global provider.
    """

    def __init__(
        self,
        *,
        content: bool = False,
        environ: Mapping[str, str] | None = None,
        tracers: TracerProvider | None = None,
        meters: MeterProvider | None = None,
    ) -> None:
        self.content = content
        names = ("traceparent", "tracestate")
        found = {name: (environ or {}).get(name.upper(), "") for name in names}
        self.outside = propagate.extract({name: text for name, text in found.items() if text})
        """The context that the process was started in."""
        self.tracer: Tracer = get_tracer("clew", __version__, tracer_provider=tracers)
        self.instruments = Instruments(meters)
        self.tasks: dict[str, _Task] = {}
        """Background tasks by their id, which is the id of their session."""

    def listen(
        self, session: TracedSession, secrets: Callable[[], Sequence[str]]
    ) -> Callable[[Event], None]:
        """Return the listener for the events of one session."""
        return _SessionSpans(self, session, secrets).handle

    async def trace_call(
        self, chunks: AsyncGenerator[Chunk, None], call: ModelCall
    ) -> AsyncGenerator[Chunk, None]:
        """Pass the chunks of a model call on, and record the call as a `chat` span."""
        span = CallSpan(self.tracer, self.instruments, call, content=self.content)
        try:
            async for chunk in chunks:
                span.add(chunk)
                yield chunk
        except Exception as error:
            span.end(type(error).__name__)
            raise
        finally:
            span.end(_CANCELLED)
            await chunks.aclose()


class _SessionSpans:
    """The spans of one session that have not ended."""

    def __init__(
        self,
        telemetry: SessionTelemetry,
        session: TracedSession,
        secrets: Callable[[], Sequence[str]],
    ) -> None:
        self._telemetry = telemetry
        self._session = session
        self._secrets = secrets
        self._run: Span | None = None
        self._run_id = RunId("")
        self._before = Context()
        """The context before the run."""
        self._compaction: Span | None = None
        self._tools: dict[str, Span] = {}

    def handle(self, event: Event) -> None:
        """Start or end a span."""
        match event:
            case UserMessage(text=text, run_id=run_id):
                self._run_id = run_id
                self._start_run(text)
            case ToolStarted():
                self._start_tool(event)
            case ToolEnded():
                self._end_tool(event)
            case ContextUpdated(state=state):
                self._record_context(state)
            case RunCompleted() | RunInterrupted() | RunFailed():
                self._handle_end(event)
            case CompactionStarted() | CompactionEnded() | CompactionFailed():
                self._handle_compaction(event)
            case BackgroundTaskEvent():
                self._note_task(event)
            case _:
                pass

    def _start_run(self, prompt: str) -> None:
        session_id = str(self._session.session_id)
        task = self._telemetry.tasks.get(session_id)
        name = shorten_name(task.agent) if task is not None and task.agent else _AGENT
        attributes: Attributes = {
            OPERATION: "invoke_agent",
            AGENT_NAME: name,
            AGENT_ID: session_id,
            CONVERSATION: session_id,
        }
        if self._telemetry.content:
            parts = [{"type": "text", "content": prompt}]
            messages = [{"role": "user", "parts": parts}]
            attributes["gen_ai.input.messages"] = encode_content(messages, self._secrets())
        self._before = otel_context.get_current()
        spawned_by = task.spawned_by if task is not None else None
        self._run = self._telemetry.tracer.start_span(
            f"invoke_agent {name}",
            # A background agent outlives the turn that started it, so it is a trace of its own.
            context=Context() if spawned_by is not None else self._find_parent(),
            links=[Link(spawned_by)] if spawned_by is not None else None,
            attributes=attributes,
        )
        self._enter(self._run)

    def _find_parent(self) -> Context:
        """Return the current context, or that of the process where nothing is current."""
        if get_current_span().get_span_context().is_valid:
            return self._before
        return self._telemetry.outside

    def _handle_end(self, event: RunCompleted | RunInterrupted | RunFailed) -> None:
        """End the run that works; a prompt that was cancelled while it waited ends too."""
        run_id = event.run_id if isinstance(event, RunFailed) else event.result.run_id
        if run_id and self._run_id and run_id != self._run_id:
            return
        match event:
            case RunCompleted(result=result):
                self._end_run(result, "")
            case RunInterrupted(result=result):
                self._end_run(result, _CANCELLED)
            case RunFailed(error_type=error_type):
                self._end_run(None, error_type or "Error")

    def _end_run(self, result: ExecutionResult | None, error: str) -> None:
        for call_id in list(self._tools):
            end_span(self._tools.pop(call_id), _CANCELLED)
        run, self._run = self._run, None
        if run is None:
            return
        if result is not None:
            if result.usage is not None:
                run.set_attributes(describe_run_usage(result.usage))
            run.set_attribute("clew.context.used", result.context_state.used_tokens)
            run.set_attribute("clew.context.limit", result.context_state.max_tokens)
            if self._telemetry.content and result.response:
                parts = [{"type": "text", "content": result.response}]
                messages = [{"role": "assistant", "parts": parts}]
                content = encode_content(messages, self._secrets())
                run.set_attribute("gen_ai.output.messages", content)
        end_span(run, error)
        otel_context.attach(self._before)

    def _start_tool(self, event: ToolStarted) -> None:
        name = shorten_name(event.name)
        attributes: Attributes = {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": event.call_id,
            "gen_ai.tool.type": "function",
            CONVERSATION: str(self._session.session_id),
        }
        if self._telemetry.content:
            content = encode_content([event.arguments], self._secrets())
            attributes["gen_ai.tool.call.arguments"] = content
        span = self._telemetry.tracer.start_span(f"execute_tool {name}", attributes=attributes)
        self._tools[event.call_id] = span
        self._enter(span)

    def _end_tool(self, event: ToolEnded) -> None:
        span = self._tools.pop(event.call_id, None)
        if span is None:
            return
        if self._telemetry.content and event.display:
            content = encode_content([event.display], self._secrets())
            span.set_attribute("gen_ai.tool.call.result", content)
        end_span(span, (event.error_code or "failed") if event.failed else "")
        self._leave()

    def _handle_compaction(
        self, event: CompactionStarted | CompactionEnded | CompactionFailed
    ) -> None:
        match event:
            case CompactionStarted(trigger=trigger, before=before):
                self._compaction = self._telemetry.tracer.start_span(
                    "clew.compact",
                    attributes={
                        CONVERSATION: str(self._session.session_id),
                        "clew.compact.trigger": str(trigger),
                        "clew.compact.tokens_before": before.used_tokens,
                    },
                )
                self._enter(self._compaction)
                return
            case CompactionEnded(after=after, report=report):
                if self._compaction is not None:
                    self._compaction.set_attribute("clew.compact.tokens_after", after.used_tokens)
                    self._compaction.set_attribute("clew.compact.author", report.author)
                error = ""
            case CompactionFailed():
                error = "CompactionFailed"
        span, self._compaction = self._compaction, None
        if span is not None:
            end_span(span, error)
            self._leave()

    def _note_task(self, event: BackgroundTaskEvent) -> None:
        if event.task_id in self._telemetry.tasks:
            return
        current = get_current_span().get_span_context()
        in_background = event.state is not None and event.state.mode == "background"
        self._telemetry.tasks[event.task_id] = _Task(
            event.agent, current if in_background and current.is_valid else None
        )

    def _record_context(self, state: ContextState) -> None:
        task = self._telemetry.tasks.get(str(self._session.session_id))
        agent = shorten_name(task.agent) if task is not None and task.agent else _AGENT
        self._telemetry.instruments.record_context(state, {AGENT_NAME: agent})

    def _enter(self, span: Span) -> None:
        otel_context.attach(set_span_in_context(span))

    def _leave(self) -> None:
        """Make the run the current span again, or what was current before it."""
        run = self._run
        otel_context.attach(set_span_in_context(run) if run is not None else self._before)
