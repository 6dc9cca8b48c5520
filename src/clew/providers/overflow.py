"""Recognize the responses of providers to a request that is too long for the model.

There is no common format: some hosts send a code, most only a sentence, and a few put the number
of tokens that they accept into it. The patterns are case-insensitive and compiled when a call
fails, because most runs never need them. An output limit must match none of them.
"""

import re
from typing import Final

_CODES: Final = frozenset(
    {
        "1261",  # Z.ai
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_context_window_exceeded",
        "model_max_prompt_tokens_exceeded",
        "tokens_limit_reached",
        "too_many_prompt_tokens",
        "too_many_tokens",
    }
)

_RATE_CODES: Final = frozenset({"tokens_limit_reached", "too_many_tokens"})
"""With status 429 these may be about a rate, which passes."""

_FIELD: Final = r"^\W*(invalid \W?)?\w+(\[\d+\]|\.\d+)[.\[]['a-z][\w.\[\]']*\W{0,2}:"
"""A message that begins with the path of a field is about that field: `tools.0.description: …`."""

_TEXTS: Final = (
    r"prompt (tokens )?(is )?too long",
    r"maximum (context|prompt|model) length",
    r"(exceeds?|exceeded|exceeding|larger than|longer than|greater than)\b.{0,40}"
    r"context (length|window|size|limit)",
    r"context (length|window|size|limit).{0,20}exceed",
    r"context (the )?overflow",
    r"input tokens? exceed",
    r"number of input tokens exceeds",
    r"exceeds (the )?maximum number of input tokens",
    r"input \(?[\d,]+\)? exceeds? max_seq_len",
    r"input token count .{0,40}exceeds",
    r"prompt token count .{0,40}exceeds",
    r"too many tokens: size limit",
    r"total length of all messages is too long",
    r"(input|conversation) (is )?too long",
    r"too many input tokens",
    r"too many tokens: the total number",
    r"contextwindowexceeded",
    r"passed [\d,]+ input (tokens|characters)\b.{0,80}context length",
    r"(prompt|input) length \(?[\d,]+\)? exceeds (the )?max_model_len",
    r"input token count is [\d,]+ but (the )?model only supports",
    r"\binputs\W{0,2} tokens \+ \W?max_new_tokens\W? must be <=",
    r"(prompt|input|total|conversation)\b.{0,40}\bexceeds? (the )?(customer )?model(.s)? (token )?"
    r"(limit|max)",
    r"input exceeds the max(imum)? input token",
    r"sum of prompt length .{0,60}exceed max_num_tokens",
    r"range of input length should be",
    r"exceeded model token limit",
    r"(prompt|input)( length)?[ \d(),]{0,24}( tokens\)?)? exceeds (the )?max(imum)?( allowed)?"
    r"( input)? length",
    r"prompt_tokens \(\d+\) must be less than max_seq_len",
    r"prompt has [\d,]+ tokens, but the configured context size is",
    r"inputs?\W{0,2} must have less than [\d,]+ tokens",
    r"exceed max message tokens",
    r"reduce the length of the (input )?(messages|prompt)",
)

_RATE_TEXT: Final = r"request too large .{0,200}tokens per min"
"""The request alone exceeds the tokens per minute of the account, so waiting cannot help."""

_NUMBER = r"([\d,]{3,11})"
_LIMITS: Final = (
    rf"maximum (?:context|prompt|model) length(?: is|:| of)? \(?{_NUMBER}",
    rf"{_NUMBER} maximum context length",
    rf"> {_NUMBER} maximum",
    rf"maximum number of tokens allowed \(?{_NUMBER}",
    rf"limit for this model is {_NUMBER}",
    rf"context (?:size|length|window|window limit) \({_NUMBER}(?: tokens)?\)",
    rf"context limit: [\d,]+ \+ [\d,]+ > {_NUMBER}",
    rf"context length (?:of|is) only {_NUMBER}",
    rf"context window of {_NUMBER}",
    rf"configured limit of {_NUMBER}",
    rf"max_model_len(?: of)? \(?{_NUMBER}",
    rf"model only supports up to {_NUMBER}",
    rf"max_new_tokens\W? must be <= {_NUMBER}",
    rf"model(?:.s)? (?:token )?(?:limit|max|maximum)(?: of| is|:)? \(?{_NUMBER}",
    rf"number of tokens in the prompt exceeds the limit of {_NUMBER}",
    rf"max(?:imum number of)? input tokens:? \(?{_NUMBER}",
    rf"max_num_tokens \({_NUMBER}\)",
    rf"context size is {_NUMBER}",
    rf'\bn_ctx"?: ?{_NUMBER}',
    rf"input length should be \[\d+, ?{_NUMBER}\]",
    rf"model token limit: {_NUMBER}",
    rf"token count of [\d,]+ exceeds the limit of {_NUMBER}",
    rf"exceeds (?:the )?max(?:imum)?(?: allowed)?(?: input)? length(?: of)? \(?{_NUMBER}",
    rf"max_seq_len \(?{_NUMBER}",
    rf"must have less than {_NUMBER} tokens",
    rf"while limit is {_NUMBER}",
    rf"max size: {_NUMBER} tokens",
    rf"tokens per min\w* \(TPM\): limit {_NUMBER}",
)
"""How providers report the number of tokens that they accept."""


def is_overflow(status: int | None, text: str, codes: frozenset[str]) -> bool:
    """Return whether a request was rejected for its length.

    Args:
        status: The HTTP status, if there is one.
        text: The message of the response.
        codes: Its error codes and types, in lower case.
    """
    if is_account_limit(text):
        return True
    if status == 429:
        return bool(codes & (_CODES - _RATE_CODES))
    if status == 413 or codes & _CODES:
        return True
    return not _search((_FIELD,), text) and _search(_TEXTS, text) is not None


def is_account_limit(text: str) -> bool:
    """Return whether the account's tokens per minute are the limit, not the model's window."""
    return _search((_RATE_TEXT,), text) is not None


def find_limit(text: str) -> int | None:
    """Return how many tokens the provider says that it accepts, or None."""
    found = _search(_LIMITS, text)
    number = next(filter(None, found.groups())) if found else ""
    return int(number.replace(",", "")) if number.replace(",", "") else None


def _search(patterns: tuple[str, ...], text: str) -> re.Match[str] | None:
    return re.search("|".join(patterns), text, re.IGNORECASE)
