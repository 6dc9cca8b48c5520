"""The other participants of `benchmarks.overhead`: what people use instead of Clew.

Each is set up as its own documentation shows, without telemetry, and shares between sessions
what it can. Each is imported only in the process that runs it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.fake_model import TOOL
from benchmarks.overhead_runs import (
    ABOUT,
    MODEL,
    PROMPT,
    Participant,
    Prepare,
    Run,
    Said,
    body_for,
    results,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_NO_LIMIT = 10_000


@asynccontextmanager
async def openai_client(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """A loop by hand around OpenAI's own client."""
    async with _client(url) as client:

        async def prepare(history: Sequence[Said]) -> Run:
            return partial(_go_on, client, body_for(history, streaming))

        yield prepare


def _client(url: str) -> "AsyncOpenAI":
    from openai import AsyncOpenAI  # noqa: PLC0415

    return AsyncOpenAI(base_url=url, api_key="none")


async def _go_on(client: "AsyncOpenAI", body: dict[str, Any]) -> None:
    messages = body["messages"]
    while True:
        answer = await client.chat.completions.create(**body)
        said = await _streamed(answer) if body.get("stream") else _whole(answer)
        messages.append(said)
        if not said.get("tool_calls"):
            return
        messages.extend(results(said["tool_calls"]))


def _whole(answer: Any) -> Said:
    said: Said = answer.choices[0].message.model_dump(exclude_none=True)
    return said


async def _streamed(stream: Any) -> Said:
    words: list[str] = []
    calls: list[dict[str, Any]] = []
    async for chunk in stream:
        for choice in chunk.choices:
            words.append(choice.delta.content or "")
            for piece in choice.delta.tool_calls or ():
                if piece.id:
                    function = {"name": piece.function.name, "arguments": ""}
                    calls.append({"id": piece.id, "type": "function", "function": function})
                calls[-1]["function"]["arguments"] += piece.function.arguments
    content = "".join(words) or None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


@asynccontextmanager
async def pydantic_ai(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """An `Agent` that is given the history."""
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415
    from pydantic_ai.usage import UsageLimits  # noqa: PLC0415

    async with _client(url) as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        agent = Agent(model)
        agent.tool_plain(name=TOOL, description=ABOUT)(_noop)

        async def prepare(history: Sequence[Said]) -> Run:
            return partial(
                agent.run,
                PROMPT,
                message_history=_for_pydantic_ai(history),
                usage_limits=UsageLimits(request_limit=None),
                event_stream_handler=_ignore if streaming else None,
            )

        yield prepare


async def _noop(number: int) -> str:
    """Do nothing, and say so."""
    return f"{number} done"


async def _ignore(_: object, events: Any) -> None:
    async for _event in events:
        pass


def _for_pydantic_ai(history: Sequence[Said]) -> list[Any]:
    from pydantic_ai.messages import (  # noqa: PLC0415
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    made: list[Any] = []
    for said in history:
        text = said["content"]
        if said["role"] == "user":
            made.append(ModelRequest(parts=[UserPromptPart(content=text)]))
        elif said["role"] == "tool":
            part = ToolReturnPart(tool_name="Read", content=text, tool_call_id=said["tool_call_id"])
            made.append(ModelRequest(parts=[part]))
        elif text:
            made.append(ModelResponse(parts=[TextPart(content=text)]))
        else:
            (asked,) = said["tool_calls"]
            name, arguments = asked["function"]["name"], asked["function"]["arguments"]
            call = ToolCallPart(tool_name=name, args=arguments, tool_call_id=asked["id"])
            made.append(ModelResponse(parts=[call]))
    return made


@asynccontextmanager
async def openai_agents(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """The `Runner` of openai-agents, over Chat Completions, with tracing off."""
    from agents import (  # noqa: PLC0415
        Agent,
        OpenAIChatCompletionsModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )

    set_tracing_disabled(disabled=True)
    async with _client(url) as client:
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
        noop = function_tool(_noop, name_override=TOOL, description_override=ABOUT)
        agent = Agent(name="agent", model=model, tools=[noop])

        async def streamed(said: list[Any]) -> None:
            result = Runner.run_streamed(agent, said, max_turns=_NO_LIMIT)
            async for _ in result.stream_events():
                pass

        async def prepare(history: Sequence[Said]) -> Run:
            said = _for_openai_agents(history)
            if streaming:
                return partial(streamed, said)
            return partial(Runner.run, agent, said, max_turns=_NO_LIMIT)

        yield prepare


def _for_openai_agents(history: Sequence[Said]) -> list[Any]:
    made: list[Any] = []
    for said in (*history, {"role": "user", "content": PROMPT}):
        if said["role"] == "tool":
            made.append(
                {
                    "type": "function_call_output",
                    "call_id": said["tool_call_id"],
                    "output": said["content"],
                }
            )
        elif said["content"]:
            made.append(said)
        else:
            (asked,) = said["tool_calls"]
            made.append({"type": "function_call", "call_id": asked["id"], **asked["function"]})
    return made


@asynccontextmanager
async def langgraph(url: str, *, streaming: bool) -> AsyncIterator[Prepare]:
    """LangGraph's ready-made agent, which langchain makes now, with langchain-openai's model."""
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain_core.messages import convert_to_messages  # noqa: PLC0415
    from langchain_core.tools import StructuredTool  # noqa: PLC0415
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    key: Any = "none"
    model = ChatOpenAI(model=MODEL, base_url=url, api_key=key, streaming=streaming)
    noop = StructuredTool.from_function(coroutine=_noop, name=TOOL, description=ABOUT)
    agent = create_agent(model, [noop])

    async def prepare(history: Sequence[Said]) -> Run:
        said = convert_to_messages([*history, {"role": "user", "content": PROMPT}])
        return partial(agent.ainvoke, {"messages": said}, {"recursion_limit": _NO_LIMIT})

    yield prepare


PEERS: dict[str, Participant] = {
    "openai": openai_client,
    "pydantic_ai": pydantic_ai,
    "agents": openai_agents,
    "langchain": langgraph,
}
"""By the name of the package that each needs."""
