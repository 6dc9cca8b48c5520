"""How the models of a family count tokens, by the model's name.

A family is a prior: how many tokens of its tokenizer one estimated unit is, what its requests add
to the texts (`Framing`), and whether it keeps thinking. Counts that a provider reports correct it
(`clew.context.calibration`).
"""

import re
from functools import lru_cache

from msgspec import Struct

from clew.context.estimate import SAFE_FRAMING, Framing


class ModelFamily(Struct, frozen=True, kw_only=True):
    """How the models of one family count tokens."""

    rate: float = 1.0
    """Tokens per unit."""
    keeps_reasoning: bool = True
    """False: the provider drops thinking when the next user message arrives."""
    framing: Framing = SAFE_FRAMING


def _make(  # noqa: PLR0913 - the columns of a table
    rate: float,
    *,
    keeps_reasoning: bool = False,
    message: int = 4,
    call: int = 12,
    result: int = 6,
    tool: int = 8,
    tools: int = 0,
    request: int = 0,
    system: int = 0,
    sealed: int = 200,
    typed_tools: bool = False,
) -> ModelFamily:
    """Return a family whose framing is given in tokens."""
    framing = Framing(
        message=round(message / rate),
        call=round(call / rate),
        result=round(result / rate),
        tool=round(tool / rate),
        tools=round(tools / rate),
        request=round(request / rate),
        system=round(system / rate),
        sealed=sealed,
        typed_tools=typed_tools,
    )
    return ModelFamily(rate=rate, keeps_reasoning=keeps_reasoning, framing=framing)


_FAMILIES = (
    (
        "gpt-oss",
        _make(0.98, call=10, result=4, tool=0, tools=24, request=66, system=6, typed_tools=True),
    ),
    (
        r"gpt|(?<![a-z0-9])o[1-9](?![a-z0-9])|codex|computer-use",
        _make(
            0.97,
            call=8,
            result=4,
            tool=0,
            tools=12,
            request=3,
            system=3,
            sealed=800,
            typed_tools=True,
        ),
    ),
    ("gemini|gemma", _make(1.03, message=0, call=15, result=8, tool=0, tools=4, typed_tools=True)),
    ("grok.*non-reasoning", _make(0.98, keeps_reasoning=True, tool=0, tools=140)),
    ("grok", _make(0.98, keeps_reasoning=True, tool=0, tools=140, request=175)),
    ("qwen|qwq", _make(1.1, call=16, result=14, tool=0, tools=130, request=3, system=5)),
    ("glm|zai", _make(1.05, call=16, result=10, tool=0, tools=110)),
    ("deepseek.*llama|llama-?3", _make(1.02, request=30)),
    ("deepseek", _make(1.03, call=20, result=10, tool=0, tools=230)),
    (
        "kimi|moonshot",
        _make(1.05, keeps_reasoning=True, call=16, result=10, tool=24, request=2, system=4),
    ),
    (
        "mistral|ministral|magistral|mixtral|pixtral|codestral|devstral|voxtral",
        _make(1.1, keeps_reasoning=True, tool=30, request=10, system=4),
    ),
    ("nova-2", _make(1.06, keeps_reasoning=True, tool=0, tools=870, request=40)),
    ("nova", _make(1.06, keeps_reasoning=True, message=0, tool=0, tools=350)),
    ("llama-?4", _make(1.02, tool=0, tools=600)),
    ("llama", _make(1.02)),
)
"""Families by a part of the name; the first match wins. The other numbers
are tokens, measured on recorded requests whose whole text is known."""

_CLAUDE = r"claude-(?:[a-z]+-)?v?(\d)(?:-(\d))?(?!\d)"
_OLD_RATE, _NEW_RATE = 1.18, 1.62
"""Claude Opus 4.7 brought a tokenizer that counts about 1.35 times as many tokens."""
_CLAUDE_PREAMBLES = (
    ((4, 8), 290),
    ((4, 7), 675),
    ((4, 5), 496),
    ((0, 0), 313),
)
"""Tokens of the hidden instructions that Anthropic adds to a request with tools, by the first
version with this number, as its documentation of tool use states them (`tool_choice` auto)."""
_SONNET_5_PREAMBLE = 354


def _make_claude(name: str) -> ModelFamily:
    """Return the family of a Claude model; one without a version counts like the newest."""
    found = re.search(_CLAUDE, name)
    version = (int(found[1]), int(found[2] or 0)) if found else (9, 0)
    tools = next(tokens for first, tokens in _CLAUDE_PREAMBLES if version >= first)
    if version >= (5, 0) and "sonnet" in name:
        tools = _SONNET_5_PREAMBLE
    is_new = version >= (4, 7)
    return _make(
        _NEW_RATE if is_new else _OLD_RATE,
        # The counts show that Opus keeps the thinking of earlier turns from 4.5 on.
        keeps_reasoning=version >= (4, 6) or (version >= (4, 5) and "opus" in name),
        message=6 if is_new else 5,
        call=40,
        result=30,
        tool=8,
        tools=tools,
        request=3,
    )


@lru_cache
def family_of(model: str) -> ModelFamily:
    """Return the family of `model`; dots and dashes in names are equal."""
    name = model.lower().replace(".", "-")
    if "claude" in name:
        return _make_claude(name)
    return next((found for part, found in _FAMILIES if re.search(part, name)), ModelFamily())
