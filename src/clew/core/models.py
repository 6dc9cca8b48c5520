"""What Clew knows of a model, as data: no provider is asked and no name is special-cased."""

from msgspec import Struct

DEFAULT_WINDOW = 32_768
"""Assumed where a window is unknown: small enough that most models can hold it."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The properties of one model that change how a session treats it."""

    name: str
    window: int = DEFAULT_WINDOW
    """Tokens that prompt and answer may fill together."""
    max_output: int = 4_096
    calls_tools: bool = True
    """False: tool schemas are not sent."""
    summarises: bool = True
    """False: its summaries are not to be trusted, so compaction goes by rules."""
    sees: bool = True
    """False: pictures are not sent; a note says that there was one."""
    known: bool = True
    """False: these are defaults for a name nobody told us about."""


class ToolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: dict[str, object]
    extra: dict[str, object] = {}
    """Fields that only some providers know, such as `strict`; sent as they are."""
