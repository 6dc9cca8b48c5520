"""How servers with a Chat Completions API differ, as data."""

from enum import StrEnum

from msgspec import Struct

from clew.providers.wire.sanitize import NameRule

NAMES = NameRule(characters="a-zA-Z0-9_-", longest=64)
"""What OpenAI and most hosts accept as a function name."""
IDS = NameRule(longest=40)
"""What OpenAI accepts as a call id."""


class ReasoningField(StrEnum):
    """The field of an assistant message that returns reasoning to the server."""

    NOWHERE = ""
    CONTENT = "reasoning_content"
    REASONING = "reasoning"
    PARTS = "thinking"
    """As content parts, before the text."""


class DocumentField(StrEnum):
    """The content part for documents other than images, audio and video."""

    FILE = "file"
    ADDRESS = "document_url"


class Dialect(Struct, frozen=True, kw_only=True):
    """What one server needs differently; the defaults suit most."""

    limit_field: str = "max_tokens"
    """The field for the maximum number of output tokens."""
    system_role: str = "system"
    key_field: str = ""
    """The field for `Request.cache_key`; none by default."""
    stream_usage: bool = True
    """Request the usage of a stream with `stream_options`."""
    reasoning: ReasoningField = ReasoningField.NOWHERE
    always_reasoning: bool = False
    """Every assistant message must have the reasoning field, even if it is empty."""
    text_lists: bool = True
    """Send several texts as a list; otherwise as one text with blank lines between."""
    result_images: bool = False
    """Tool messages may contain images; otherwise notes replace them."""
    documents: DocumentField = DocumentField.FILE
    cache_control_models: tuple[str, ...] = ()
    """Prefixes of models that cache only up to breakpoints in the messages."""

    names: NameRule = NameRule()
    """The rule for tool names; those of other models may break it."""
    ids: NameRule = NameRule()
    """The rule for call ids."""
    bridge_models: tuple[str, ...] = ()
    """Prefixes of models that need an assistant message between tool results and the next user
    message; `("",)` for all."""
    merge_roles: bool = False
    """Merge consecutive messages of one role: chat templates may require alternation."""

    def needs_bridge(self, model: str) -> bool:
        """Return whether `model` needs an assistant message after tool results."""
        return model.startswith(self.bridge_models)

    def needs_cache_control(self, model: str) -> bool:
        """Return whether messages for `model` need cache breakpoints."""
        return model.startswith(self.cache_control_models)
