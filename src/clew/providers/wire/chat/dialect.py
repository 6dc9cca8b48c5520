"""How servers that speak Chat Completions differ, as data."""

from enum import StrEnum

from msgspec import Struct

from clew.providers.wire.sanitize import NameRule

NAMES = NameRule(characters="a-zA-Z0-9_-", longest=64)
"""What OpenAI and most hosts take as the name of a function."""
IDS = NameRule(longest=40)
"""What OpenAI takes as the id of a call."""


class ReasoningField(StrEnum):
    """Where an assistant message holds the thinking that is sent back."""

    NOWHERE = ""
    CONTENT = "reasoning_content"
    REASONING = "reasoning"
    PIECES = "thinking"
    """As pieces of the content, before its words."""


class DocumentField(StrEnum):
    """Which piece of content brings a document that is neither a picture, a sound nor a film."""

    FILE = "file"
    ADDRESS = "document_url"


class Dialect(Struct, frozen=True, kw_only=True):
    """What one server wants to be told differently; the defaults suit most."""

    limit_field: str = "max_tokens"
    """How the limit on the answer's length is spelt."""
    system_role: str = "system"
    key_field: str = ""
    """Where `Request.cache_key` goes; nowhere unless named."""
    stream_usage: bool = True
    """Ask for the usage of a stream with `stream_options`."""
    thinking: ReasoningField = ReasoningField.NOWHERE
    always_thinking: bool = False
    """Every assistant message must have the field, be it empty."""
    text_lists: bool = True
    """Several texts are sent as a list; otherwise as one text with blank lines between."""
    result_images: bool = False
    """Pictures may stand in tool messages; otherwise a note tells of them."""
    documents: DocumentField = DocumentField.FILE
    cache_marks: tuple[str, ...] = ()
    """Beginnings of the names of models that cache only up to marks in the messages."""

    names: NameRule = NameRule()
    """How a call must be named; what another model wrote may break it."""
    ids: NameRule = NameRule()
    """How the id of a call must be spelt."""
    bridged: tuple[str, ...] = ()
    """Beginnings of the names of models that want an answer between results and the user's
    next words; `("",)` for all."""
    merges: bool = False
    """Messages of one side in a row are sent as one: templates may want the two to alternate."""

    def bridges(self, model: str) -> bool:
        """Say whether `model` wants an answer after the results of tools."""
        return model.startswith(self.bridged)

    def marks(self, model: str) -> bool:
        """Say whether messages for `model` need cache marks."""
        return model.startswith(self.cache_marks)
