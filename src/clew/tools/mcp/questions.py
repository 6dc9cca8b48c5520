"""What a server may ask: the user (elicitation), the model (sampling), and where it works (roots).

Clients ask questions with yes and no, and some let the user write a reply. So one question can fill
one boolean field by yes, and one other field by the reply; fields with a default get it. A form
with more open fields becomes one question for each of them. Clew declines very long forms.
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
_MOST_QUESTIONS = 12
"""Fields of one form that the user is asked for."""
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
    if not isinstance(fields, dict) or not all(isinstance(one, dict) for one in fields.values()):
        return _DECLINE
    if not _fits_one_question(fields):
        required = params.requested_schema.get("required")
        return await _ask_each(question, fields, required, ask)
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


async def _ask_each(
    question: str, fields: Mapping[str, Any], required: object, ask: AskUser
) -> mcp_types.ElicitResult:
    """Ask for every field without a default; no leaves out a field that is not required."""
    names = [name for name, one in fields.items() if "default" not in one]
    if len(names) > _MOST_QUESTIONS:
        return _DECLINE
    content = {name: one["default"] for name, one in fields.items() if "default" in one}
    for number, name in enumerate(names, start=1):
        field, shown = fields[name], sanitize_line(str(name), 60)
        where = f"{question} ({number} of {len(names)}: {shown})"
        answer = await ask(where, {shown: _describe(field)})
        if answer is None:
            return _CANCEL
        if _is_yes(answer):
            content[name] = _fill(field, answer.reply.strip())
        elif field.get("type") == "boolean":
            content[name] = False
        elif isinstance(required, list) and name in required:
            return _DECLINE
        if content.get(name, "") is None:
            return _DECLINE
    return mcp_types.ElicitResult(action="accept", content=content)


def _is_yes(answer: PermissionAnswer | None) -> bool:
    return answer is not None and answer.approval is not Approval.NO


def _fits_one_question(fields: Mapping[str, Any]) -> bool:
    """Return whether yes, no and one reply are enough to fill all fields."""
    open_fields = [one for one in fields.values() if "default" not in one]
    yes_or_no = [one for one in open_fields if one.get("type") == "boolean"]
    # One yes must not agree to several things.
    return len(yes_or_no) <= 1 and len(open_fields) - len(yes_or_no) <= 1


def _describe(field: Mapping[str, Any]) -> str:
    choices = _list_choices(field)
    count = "some of" if field.get("type") == "array" else "one of"
    named = (f"{one} ({title})" if title != one else one for one, title in choices.items())
    kind = f"{count} {', '.join(named)}" if choices else str(field.get("type", "text"))
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
    choices = _list_choices(field)
    if kind == "array":
        words = [word.strip() for word in said.split(",") if word.strip()]
        chosen = [_find_choice(choices, word) if choices else word for word in words]
        return [one for one in chosen if one is not None] if None not in chosen else None
    if choices:
        return _find_choice(choices, said)
    if kind in ("integer", "number"):
        try:
            number = int(said) if kind == "integer" else float(said)
        except ValueError:
            return None
        return number
    return said or None


def _list_choices(field: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that a field can have, with their titles; none if any text will do."""
    items = field.get("items")
    source = items if isinstance(items, dict) else field
    listed = source.get("enum")
    values = [str(one) for one in listed] if isinstance(listed, list) else []
    titles = field.get("enumNames")
    named = [str(one) for one in titles] if isinstance(titles, list) else []
    found = dict(zip(values, named if len(named) == len(values) else values, strict=True))
    for key in ("oneOf", "anyOf"):
        forms = source.get(key)
        for one in forms if isinstance(forms, list) else ():
            if isinstance(one, dict) and isinstance(one.get("const"), str):
                found[one["const"]] = str(one.get("title") or one["const"])
    return found


def _find_choice(choices: Mapping[str, str], said: str) -> str | None:
    """Return the value that a reply names, by itself or by its title."""
    if said in choices:
        return said
    named = [one for one, title in choices.items() if title.casefold() == said.casefold()]
    return named[0] if len(named) == 1 else None


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
