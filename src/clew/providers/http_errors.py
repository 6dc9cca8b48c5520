"""Map the error responses of providers to Clew's exceptions.

Pure, and shared by all adapters: hosts with the same API word their errors differently, and
gateways forward the errors of others.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    SignatureRejected,
)
from clew.core.json_text import decode_json
from clew.core.redaction import redact
from clew.providers.overflow import find_limit, is_account_limit, is_overflow
from clew.providers.retry import find_retry_after

MAX_TEXT = 500
"""Characters of a provider's error message that an exception repeats."""

_SIGNATURE_CODES = frozenset({"invalid_encrypted_content", "thinking_signature_invalid"})
_SIGNATURE_TEXT = (
    r"(?is)(invalid|corrupted|missing|unknown)\W{0,3}(a )?\W?(thought.?)?signature"
    r"|thought.?signature.{0,40}(not valid|invalid|missing|required)"
    r"|missing a .?thought_signature"
    r"|(redacted_)?thinking\W{1,3}blocks?.{0,60}(cannot be modified|must remain)"
    r"|expected \W?thinking\W? or \W?redacted_thinking"
    r"|invalid \W?data\W? in \W?redacted_thinking"
    r"|encrypted content.{0,600}(could not be|cannot be|not) (verified|decrypted|parsed)"
    r"|(message|block) in .{0,40}cannot (contain|be) .?thinking"
    r"|without its required (following item|.?reasoning.? item)"
)
_BUSY_CODES = frozenset(
    {
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "slow_down",
    }
)
_BILLING_CODES = frozenset(
    {
        "1113",  # Z.ai: the balance is used up
        "arrearage",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "insufficient_quota",
    }
)
_BILLING_TEXT = r"(?i)credit balance is too low|insufficient (account )?(balance|credits?)\b"
_KEY_TEXT = r"(?i)(incorrect|invalid|missing) api key|api key (is )?(not valid|invalid)"
_DENIED = frozenset({401, 402, 403})


def error_for(
    status: int | None,
    body: str,
    headers: Mapping[str, str],
    provider: str,
    *,
    mask: Callable[[str], str] = str,
) -> ProviderError:
    """Return the exception for an error response.

    Args:
        status: The HTTP status; None for a mid-stream error without one.
        body: The response body, JSON or not.
        headers: The response headers; names are case-insensitive.
        provider: The provider, for the message.
        mask: Removes secrets from the text that the exception repeats. The class of the exception
            depends on the text as it was sent, because a secret may be a part of a word.
    """
    text, codes = _read(body)
    where = f"{provider} (HTTP {status})" if status else provider
    said = f": {_cut(redact(mask(text)))}" if text else "."
    if status in _DENIED or _is_about_account(status, text, codes):
        advice = "Check the key, its permissions and the account's credit."
        message = f"{where} rejected the API key or the account{said} {advice}"
        return ProviderDenied(message, provider=provider, status=status)
    if is_overflow(status, text, codes):
        return ContextOverflow(
            f"{where} reports that the conversation is too long for the model{said}"
            " Compact it, or choose a model with a larger context window.",
            provider=provider,
            status=status,
            limit=find_limit(f"{text} {body}"),
            is_account_limit=is_account_limit(text),
        )
    if _is_about_signature(text, codes):
        advice = "Clew leaves it out from now on; send the message again."
        message = f"{where} rejected reasoning that was sent back{said} {advice}"
        return SignatureRejected(message, provider=provider, status=status)
    if _is_busy(status, codes):
        return ProviderBusy(
            f"{where} is overloaded or unavailable{said} Try again later.",
            provider=provider,
            status=status,
            retry_after=find_retry_after(headers, body),
        )
    hint = "the base URL and the model name" if status == 404 else "the model and the settings"
    message = f"{where} rejected the request{said} Check {hint}; retrying will not help."
    return ProviderRejected(message, provider=provider, status=status)


def _is_about_signature(text: str, codes: frozenset[str]) -> bool:
    return bool(codes & _SIGNATURE_CODES) or re.search(_SIGNATURE_TEXT, text) is not None


def _is_about_account(status: int | None, text: str, codes: frozenset[str]) -> bool:
    # OpenAI and Z.ai answer 429 when the credit is used up, Anthropic 400; waiting does not help.
    if codes & _BILLING_CODES or re.search(_BILLING_TEXT, text):
        return True
    return status == 400 and re.search(_KEY_TEXT, text) is not None


def _is_busy(status: int | None, codes: frozenset[str]) -> bool:
    if status is None:
        return bool(codes & _BUSY_CODES)
    return status in {408, 424, 425, 429} or (status >= 500 and status != 501)


def _read(body: str) -> tuple[str, frozenset[str]]:
    """Return the message and the codes and types of an error body in any known format."""
    try:
        found = decode_json(body)
    except msgspec.DecodeError:
        return " ".join(body.split()), frozenset()
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, dict):
        return " ".join(body.split()), frozenset()
    inner = found.get("error")
    both = [level for level in (inner, found) if isinstance(level, dict)]
    codes = {
        str(level.get(key)).lower() for level in both for key in ("code", "type", "error_type")
    }
    text = inner if isinstance(inner, str) else _message(both)
    text = ": ".join(filter(None, (text, _find_upstream_text(inner))))
    return text or " ".join(body.split()), frozenset(codes)


def _find_upstream_text(error: Any) -> str:
    """Return what the provider behind OpenRouter said, which names the problem."""
    metadata = error.get("metadata") if isinstance(error, dict) else None
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return " ".join(raw.split()) if isinstance(raw, str) else ""


def _message(levels: list[dict[str, Any]]) -> str:
    for level in levels:
        for key in ("message", "detail"):
            value = level.get(key)
            if isinstance(value, str) and value:
                return value
    return ""


def _cut(text: str) -> str:
    text = text.strip()
    if len(text) > MAX_TEXT:
        return text[:MAX_TEXT] + "…"
    return text if text.endswith((".", "!", "?")) else text + "."
