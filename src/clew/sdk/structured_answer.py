"""Answers as JSON that satisfies a schema: ask, validate, and let the model correct itself."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import AnswerRejected, ConfigError
from clew.core.json_text import decode_json
from clew.core.results import ExecutionResult
from clew.core.text import pluralize
from clew.sdk.client import PromptInput, SessionClient, wait_for_run
from clew.sdk.json_schema import JsonSchema, load_schema

MAX_REPAIRS = 3
"""How often the model may correct an answer."""
_MAX_ERRORS = 10
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_INSTRUCTIONS = """\
Your final answer must be one JSON value that satisfies the JSON Schema below: no other text, no \
Markdown fence. You may use tools before you answer.

{schema}"""
_REPAIR = """\
Your last answer does not satisfy the JSON Schema:
{errors}
Answer again with the corrected JSON value and nothing else."""


class StructuredAnswer(Struct, frozen=True, kw_only=True):
    """A value that satisfies the schema."""

    value: Any
    result: ExecutionResult
    """How the last run ended."""
    repairs: int = 0
    """How often the model had to correct its answer."""


def read_schema(path: Path) -> JsonSchema:
    """Read a schema from a file.

    Raises:
        ConfigError: The file cannot be read, or is not a schema that can be checked.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return load_schema(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def write_instructions(schema: Mapping[str, Any]) -> str:
    """Return what the system prompt says about the answer."""
    return _INSTRUCTIONS.format(schema=msgspec.json.encode(schema).decode())


def native_options(provider: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields with which a provider enforces the schema itself; {} for none.

    Only the embedded model is told: it gets no tools, which such a constraint would disable, and
    its summaries are written by rules, which it would corrupt.
    """
    if provider != "embedded":
        return {}
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema},
        }
    }


async def ask_structured(
    client: SessionClient,
    prompt: PromptInput | str,
    schema: JsonSchema,
    *,
    max_repairs: int = MAX_REPAIRS,
) -> StructuredAnswer:
    """Run a prompt until the answer satisfies the schema.

    Raises:
        AnswerRejected: It does not, even after the corrections.
        RunError: A run failed, or was aborted.
    """
    asked = PromptInput(text=prompt) if isinstance(prompt, str) else prompt
    repairs = 0
    while True:
        after = (await client.snapshot()).seq
        run_id = await client.submit(asked)
        result = await wait_for_run(client, run_id, after=after)
        value, errors = parse_answer(result.response, schema)
        if not errors:
            return StructuredAnswer(value=value, result=result, repairs=repairs)
        if result.interrupted or repairs >= max_repairs:
            raise AnswerRejected(
                f"the answer does not satisfy the schema after {pluralize(repairs, 'correction')}:"
                f" {errors[0]}",
                errors=tuple(errors),
            )
        repairs += 1
        listed = "\n".join(f"- {error}" for error in errors[:_MAX_ERRORS])
        # It quotes what the model wrote: nothing of that may attach a file.
        asked = PromptInput(text=_REPAIR.format(errors=listed), attach=False)


def parse_answer(text: str, schema: JsonSchema) -> tuple[Any, list[str]]:
    """Return the JSON value in an answer, and what is wrong with it.

    A model may still wrap the value into a fence or a sentence; that is not an error.
    """
    problem = "the answer contains no JSON value"
    for candidate in _find_candidates(text):
        try:
            value = decode_json(candidate.encode())
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            problem = f"the answer is not valid JSON: {error}"
            continue
        return value, schema.find_errors(value)
    return None, [problem]


def _find_candidates(text: str) -> list[str]:
    """Return the parts of an answer that may be the value, the most likely first."""
    found = [text.strip(), *(match.strip() for match in reversed(_FENCE.findall(text)))]
    for first, last in ("{}", "[]"):
        start, end = text.find(first), text.rfind(last)
        if 0 <= start < end:
            found.append(text[start : end + 1])
    return [candidate for candidate in found if candidate]
