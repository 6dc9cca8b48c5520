"""Tools and a prompt of `suite_server` that need input in a further round (protocol 2026-07-28)."""

from typing import Any

import mcp_types
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import ElicitResult, InputRequiredResult

from tests.conformance.suite_parts import make_tool


def ask_field(message: str, name: str, kind: str = "string") -> mcp_types.ElicitRequest:
    """Return a question for one field."""
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    params = mcp_types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return mcp_types.ElicitRequest(params=params)


def ask_model(text: str) -> mcp_types.CreateMessageRequest:
    """Return a question to the client's model."""
    content = mcp_types.TextContent(type="text", text=text)
    message = mcp_types.SamplingMessage(role="user", content=content)
    params = mcp_types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    return mcp_types.CreateMessageRequest(params=params)


def need(state: str | None = None, **requests: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def find_answer(context: Context, key: str, kind: type[Any]) -> Any:
    """Return the answer to a question of an earlier round; None if there is none of that kind."""
    found = (context.input_responses or {}).get(key)
    return found if isinstance(found, kind) else None


def find_field(context: Context, key: str, field: str) -> Any:
    answer = find_answer(context, key, ElicitResult)
    accepted = answer is not None and answer.action == "accept"
    return (answer.content or {}).get(field) if accepted else None


async def ask_name(context: Context) -> str | InputRequiredResult:
    name = find_field(context, "user_name", "name")
    if not isinstance(name, str):
        return need(user_name=ask_field("What is your name?", "name"))
    return f"Hello, {name}!"


async def ask_capital(context: Context) -> str | InputRequiredResult:
    answer = find_answer(context, "capital_question", mcp_types.CreateMessageResult)
    if answer is None:
        return need(capital_question=ask_model("What is the capital of France?"))
    return f"The model said: {answer.content.text}"


async def ask_roots(context: Context) -> str | InputRequiredResult:
    answer = find_answer(context, "client_roots", mcp_types.ListRootsResult)
    if answer is None:
        return need(client_roots=mcp_types.ListRootsRequest())
    return f"Roots: {[str(root.uri) for root in answer.roots]}"


async def ask_with_state(context: Context) -> str | InputRequiredResult:
    if context.request_state != "asked" or find_field(context, "confirm", "ok") is None:
        return need("asked", confirm=ask_field("Please confirm", "ok", "boolean"))
    return "state-ok"


async def ask_everything(context: Context) -> str | InputRequiredResult:
    answers = context.input_responses or {}
    if not {"user_name", "greeting", "client_roots"} <= answers.keys():
        return need(
            "asked",
            user_name=ask_field("What is your name?", "name"),
            greeting=ask_model("Generate a greeting"),
            client_roots=mcp_types.ListRootsRequest(),
        )
    return f"{len(answers)} answers"


async def ask_twice(context: Context) -> str | InputRequiredResult:
    if context.request_state is None:
        return need("first", step1=ask_field("Step 1: What is your name?", "name"))
    if context.request_state == "first":
        return need("second", step2=ask_field("Step 2: What is your favorite color?", "color"))
    return "both steps are done"


async def ask_as_able(context: Context) -> InputRequiredResult:
    """Ask only what the client has said that it can answer."""
    able = context.client_capabilities
    requests: mcp_types.InputRequests = {}
    if able is not None and able.sampling is not None:
        requests["model"] = ask_model("Say hello")
    if able is not None and able.elicitation is not None:
        requests["user"] = ask_field("Your name?", "name")
    return InputRequiredResult(input_requests=requests, request_state="asked")


async def write_prompt(context: Context) -> str | InputRequiredResult:
    found = find_field(context, "user_context", "context")
    if found is None:
        return need(user_context=ask_field("What context should the prompt use?", "context"))
    return f"Use this context: {found}"


_NAME = "test_input_required_result"
_FUNCTIONS = {
    f"{_NAME}_elicitation": ask_name,
    "test_streaming_elicitation": ask_name,
    f"{_NAME}_sampling": ask_capital,
    f"{_NAME}_list_roots": ask_roots,
    f"{_NAME}_request_state": ask_with_state,
    f"{_NAME}_tampered_state": ask_with_state,
    f"{_NAME}_multiple_inputs": ask_everything,
    f"{_NAME}_multi_round": ask_twice,
    f"{_NAME}_capabilities": ask_as_able,
}
INPUT_TOOLS = [make_tool(function, name) for name, function in _FUNCTIONS.items()]
INPUT_PROMPTS = [Prompt.from_function(write_prompt, name=f"{_NAME}_prompt", description="A prompt")]
