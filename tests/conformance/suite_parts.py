"""Tools, resources and prompts of `suite_server` that answer at once or ask over the connection."""

import base64
import json
from typing import Any

import anyio
import mcp_types
from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resources import BinaryResource, FunctionResource, TextResource
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n a picture").decode()
SOUND = base64.b64encode(b"RIFF\x04\x00\x00\x00WAVE").decode()
_CHOICES = ["one", "two", "three"]
_TITLED = [{"const": one, "title": one.capitalize()} for one in _CHOICES]


def image() -> ImageContent:
    return ImageContent(type="image", data=PICTURE, mime_type="image/png")


def embed(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    inner = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=inner)


def answer_text() -> str:
    return "This is a simple text response for testing."


def answer_image() -> list[ImageContent]:
    return [image()]


def answer_audio() -> list[AudioContent]:
    return [AudioContent(type="audio", data=SOUND, mime_type="audio/wav")]


def answer_resource() -> list[EmbeddedResource]:
    return [embed("test://embedded-resource", "This is an embedded resource content.")]


def answer_mixed() -> list[TextContent | ImageContent | EmbeddedResource]:
    data = json.dumps({"test": "data", "value": 123})
    return [
        TextContent(type="text", text="Multiple content types test:"),
        image(),
        embed("test://mixed-content-resource", data, "application/json"),
    ]


async def log_steps(context: Context) -> str:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(step)
    return "logged"


async def report_steps(context: Context) -> str:
    for step in (0, 50, 100):
        await context.report_progress(step, 100)
    return "reported"


def fail() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


async def ask_model(prompt: str, context: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await context.session.create_message([message], max_tokens=100)
    return f"LLM response: {answer.content.text if answer.content.type == 'text' else ''}"


async def ask_form(context: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await context.session.elicit_form(message, schema, context.request_id)
    content = json.dumps(answer.content or {})
    return f"Elicitation completed: action={answer.action}, content={content}"


class Person(BaseModel):
    """What `test_elicitation` asks for."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


async def ask_user(message: str, context: Context) -> str:
    answer = await context.elicit(message, Person)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"User response: action={answer.action}, content={content}"


async def ask_with_defaults(context: Context) -> str:
    status = {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": status,
        "verified": {"type": "boolean", "default": True},
    }
    return await ask_form(context, "Check this", {"type": "object", "properties": fields})


async def ask_with_choices(context: Context) -> str:
    fields = {
        "untitledSingle": {"type": "string", "enum": _CHOICES},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _CHOICES, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _CHOICES}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    }
    return await ask_form(context, "Choose", {"type": "object", "properties": fields})


async def close_stream(context: Context) -> str:
    """Close the stream of the answer, so that the client has to fetch it."""
    await context.close_sse_stream()
    await anyio.sleep(0.2)  # the client comes back after the interval that it was told
    return "Reconnection test completed"


def contact(name: str = "", address: dict[str, str] | None = None) -> str:
    return f"{name} {address}"


CONTACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def query(region: str, text: str = "") -> str:
    return f"{region} {text}"


QUERY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "text": {"type": "string"},
    },
    "required": ["region"],
}


async def change_tools(context: Context) -> str:
    await context.notify_tools_changed()
    return "changed"


async def change_prompts(context: Context) -> str:
    await context.notify_prompts_changed()
    return "changed"


async def need_sampling(context: Context) -> str:
    """Refuse a client that has not said that it can ask a model."""
    needed = mcp_types.ClientCapabilities(sampling=mcp_types.SamplingCapability())
    declared = context.client_capabilities
    if declared is None or declared.sampling is None:
        data = mcp_types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            code=mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="the client cannot ask a model",
            data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return "sampling is there"


_FUNCTIONS = {
    "test_simple_text": answer_text,
    "test_image_content": answer_image,
    "test_audio_content": answer_audio,
    "test_embedded_resource": answer_resource,
    "test_multiple_content_types": answer_mixed,
    "test_tool_with_logging": log_steps,
    "test_logging_tool": log_steps,
    "test_tool_with_progress": report_steps,
    "test_error_handling": fail,
    "test_sampling": ask_model,
    "test_elicitation": ask_user,
    "test_elicitation_sep1034_defaults": ask_with_defaults,
    "test_elicitation_sep1330_enums": ask_with_choices,
    "test_reconnection": close_stream,
    "test_trigger_tool_change": change_tools,
    "test_trigger_prompt_change": change_prompts,
    "test_missing_capability": need_sampling,
}


def make_tool(function: Any, name: str, schema: dict[str, Any] | None = None) -> Tool:
    """Return a tool of the suite's name, also with a schema that no signature gives."""
    tool = Tool.from_function(function, name=name, description=name, structured_output=False)
    return tool if schema is None else tool.model_copy(update={"parameters": schema})


TOOLS = [
    *(make_tool(function, name) for name, function in _FUNCTIONS.items()),
    make_tool(contact, "json_schema_2020_12_tool", CONTACT_SCHEMA),
    make_tool(query, "query_region", QUERY_SCHEMA),
]


def read_template(name: str) -> str:
    """A resource of a template."""
    return json.dumps({"id": name, "templateTest": True, "data": f"Data for ID: {name}"})


def read_watched() -> str:
    return "Watched resource content"


RESOURCES = [
    TextResource(
        uri="test://static-text",
        name="text",
        description="A text",
        text="This is the content of the static text resource.",
    ),
    BinaryResource(
        uri="test://static-binary",
        name="picture",
        description="A picture",
        mime_type="image/png",
        data=base64.b64decode(PICTURE),
    ),
    FunctionResource.from_function(
        read_watched, "test://watched-resource", description="It can change"
    ),
]


def simple_prompt() -> str:
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def prompt_with_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
    inner = embed(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(inner), UserMessage("Please process the embedded resource above.")]


def prompt_with_image() -> list[UserMessage]:
    return [UserMessage(image()), UserMessage("Please analyze the image above.")]


PROMPTS = [
    Prompt.from_function(
        simple_prompt, name="test_simple_prompt", description="test_simple_prompt"
    ),
    Prompt.from_function(
        prompt_with_arguments,
        name="test_prompt_with_arguments",
        description="test_prompt_with_arguments",
    ),
    Prompt.from_function(
        prompt_with_resource,
        name="test_prompt_with_embedded_resource",
        description="test_prompt_with_embedded_resource",
    ),
    Prompt.from_function(
        prompt_with_image, name="test_prompt_with_image", description="test_prompt_with_image"
    ),
]
