"""What a server may ask: the user (elicitation), the model (sampling), and where it works (roots).

Clients ask questions with yes and no, and some let the user write a reply. So a form with one
field can be answered: a boolean by yes, another field by the reply or by its default. Further
fields need a default, which they get. Clew declines other forms.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import mcp_types
from mcp.client.session import ClientRequestContext, ListRootsFnT
from pydantic import FileUrl

from clew.core.errors import ClewError
from clew.core.permissions import Approval, PermissionAnswer
from clew.core.sanitize import sanitize_line
from clew.tools.mcp.results import join_texts
from clew.tools.protocol import AskModel, AskUser

_Value: TypeAlias = str | int | float | bool | list[str] | None
_MAX_QUESTION = 1_000
_MAX_PROMPT = 200_000
_DECLINE = mcp_types.ElicitResult(action="decline")
_CANCEL = mcp_types.ElicitResult(action="cancel")


async def answer_elicitation(
    params: mcp_types.ElicitRequestParams, ask: AskUser | None
) -> mcp_types.ElicitResult:
    """Ask the user what a server asks; without a user, the question is cancelled."""
    if ask is None:
        return _CANCEL
    question = sanitize_line(params.message, _MAX_QUESTION)
    if isinstance(params, mcp_types.ElicitRequestURLParams):
        # The user opens the page; Clew only passes the address on.
        answer = await ask(question, {"url": sanitize_line(params.url, 500)})
        return mcp_types.ElicitResult(action="accept") if _is_yes(answer) else _DECLINE
    fields = params.requested_schema.get("properties")
    if not isinstance(fields, dict) or not _can_ask(fields):
        return _DECLINE
    shown = {sanitize_line(str(name), 60): _describe(field) for name, field in fields.items()}
    answer = await ask(question, shown)
    if answer is None:
        return _CANCEL
    if not _is_yes(answer):
        return _DECLINE
    content = _fill_form(fields, answer.reply)
    if None in content.values():
        return _DECLINE
    return mcp_types.ElicitResult(action="accept", content=content)


def _is_yes(answer: PermissionAnswer | None) -> bool:
    return answer is not None and answer.approval is not Approval.NO


def _can_ask(fields: Mapping[str, Any]) -> bool:
    """Return whether yes, no and one reply are enough to fill all fields."""
    if not all(isinstance(one, dict) for one in fields.values()):
        return False
    open_fields = [one for one in fields.values() if "default" not in one]
    yes_or_no = [one for one in open_fields if one.get("type") == "boolean"]
    # One yes must not agree to several things.
    return len(yes_or_no) <= 1 and len(open_fields) - len(yes_or_no) <= 1


def _describe(field: Mapping[str, Any]) -> str:
    choices = field.get("enum")
    kind = f"one of {', '.join(map(str, choices))}" if choices else str(field.get("type", "text"))
    if "default" in field:
        kind = f"{kind}, default {field['default']}"
    says = field.get("description") or field.get("title") or ""
    return sanitize_line(f"{says} ({kind})" if says else kind, 300)


def _fill_form(fields: Mapping[str, Any], reply: str) -> dict[str, _Value]:
    """Return the values for an answer of yes; None for a field that the reply does not fit.

    Yes and the reply are about the fields without a default, or about the only field.
    """
    asked = [name for name, one in fields.items() if "default" not in one or len(fields) == 1]
    return {
        name: _fill(field, reply.strip()) if name in asked else field["default"]
        for name, field in fields.items()
    }


def _fill(field: Mapping[str, Any], said: str) -> _Value:
    kind = field.get("type", "string")
    if kind == "boolean":
        return True
    if "default" in field and not said:
        default: _Value = field["default"]
        return default
    if "enum" in field:
        return said if said in field["enum"] else None
    if kind in ("integer", "number"):
        try:
            number = int(said) if kind == "integer" else float(said)
        except ValueError:
            return None
        return number
    return said or None


async def answer_sampling(
    params: mcp_types.CreateMessageRequestParams, ask_model: AskModel | None
) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
    """Ask the session's model what a server asks; images are left out."""
    if ask_model is None:
        return refuse_sampling("no session is there to answer")
    prompt = _write_prompt(params)
    if len(prompt) > _MAX_PROMPT:
        return refuse_sampling("the messages are too long")
    try:
        text = await ask_model(prompt)
    except ClewError as error:
        return refuse_sampling(str(error))
    content = mcp_types.TextContent(type="text", text=text)
    return mcp_types.CreateMessageResult(
        role="assistant", content=content, model="clew", stop_reason="endTurn"
    )


def _write_prompt(params: mcp_types.CreateMessageRequestParams) -> str:
    texts = [join_texts(message.content_as_list) for message in params.messages]
    if len(texts) == 1:
        body = texts[0]
    else:
        pairs = zip(params.messages, texts, strict=True)
        body = "\n\n".join(f"{message.role}: {text}" for message, text in pairs)
    return f"{params.system_prompt}\n\n{body}" if params.system_prompt else body


def refuse_sampling(why: str) -> mcp_types.ErrorData:
    """Return the answer that the model is not asked."""
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=f"not answered: {why}")


def make_roots_callback(cwd: Path) -> ListRootsFnT:
    """Return what answers a server that asks for the folders to work in."""

    async def list_roots(context: ClientRequestContext) -> mcp_types.ListRootsResult:  # noqa: ARG001
        root = mcp_types.Root(uri=FileUrl(cwd.as_uri()), name=cwd.name)
        return mcp_types.ListRootsResult(roots=[root])

    return list_roots
