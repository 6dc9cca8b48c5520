"""`ContextPolicy`: thresholds and limits that decide how a session treats its window."""

from typing import Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from clew.context.economy import CachePrices, Economy
from clew.context.protected import parse_protection
from clew.core.errors import ConfigError

_BACKGROUND = ("off", "on", "auto")
_CHARS_PER_TOKEN = 3
"""A low guess, so a limit in characters also holds in tokens."""


class Thresholds(Struct, frozen=True, kw_only=True):
    """Shares of the window at which something happens.

    Raises:
        ConfigError: A share is not in `0 < share <= 1`.
    """

    warn: float = 0.70
    compact: float | Literal[False] = 0.835
    """Compact before a call from this share on; False disables automatic compaction."""
    block: float = 0.95
    """Refuse to send above this share."""

    def __post_init__(self) -> None:
        for name, share in (("warn", self.warn), ("compact", self.compact), ("block", self.block)):
            if share is False and name == "compact":
                continue
            if isinstance(share, bool) or not 0 < share <= 1:
                raise ConfigError(
                    f"the {name} threshold must be above 0 and at most 1, but is {share}"
                )


class ContextPolicy(Struct, frozen=True, kw_only=True):
    """How one session treats its window. Frozen: a session exchanges the whole policy."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    preserve_recent_turns: int = 3
    """Recent turns that a compaction keeps word for word, within the budget for them."""
    economy: Economy = Economy.BALANCED
    """How much of the window to use before old content leaves the view: `full`, `balanced` or
    `lean`."""
    compress_tool_results: bool | int | None = None
    """True: replace answered tool results longer than 500 characters (or this many) by markers
    before the next call, even if that breaks the provider's cached prefix. False: clear results
    only in a compaction, or when a request would be too long to send. None: `economy` decides."""
    prices: CachePrices = field(default_factory=CachePrices)
    """Decide when clearing tool results saves cost."""
    protect: tuple[str, ...] = ()
    """Tools, paths and patterns, such as `WebFetch`, `docs/*.md` or `Bash(git diff*)`: clearing
    leaves their results alone, and a compaction keeps the newest word for word, up to a quarter of
    what it leaves."""
    max_tool_output_chars: int = 30_000
    """Longest tool output in the conversation; the rest stays in the journal."""

    output_share: float = 0.25
    """Largest share of the window that one tool output may fill, whatever the limit above."""
    background_compaction: Literal["off", "on", "auto"] = "off"
    """Prepare summaries while the session continues: `on` from the warning threshold on, `auto`
    as late as possible and only where that costs little. A prepared summary is paid for even if
    it is never used, so the default is `off`."""
    verify_summary: bool = False
    """Let a second call list what the draft of a summary left out, and add that."""
    usage_floor: int = 0
    """Least number of tokens that the context state reports as used. Set it when you know of
    tokens that neither the estimate nor the provider's last count can include."""

    @property
    def compress_over(self) -> int | None:
        """Length above which answered results are compressed; None if they are not."""
        if self.compress_tool_results is None or self.compress_tool_results is False:
            return None
        return 500 if self.compress_tool_results is True else self.compress_tool_results

    def with_thresholds(
        self,
        *,
        warn: float | None = None,
        compact: float | Literal[False] | None = None,
        block: float | None = None,
    ) -> "ContextPolicy":
        """Return this policy with other thresholds; None keeps the present one.

        Raises:
            ConfigError: A share is not in `0 < share <= 1`.
        """
        now = self.thresholds
        thresholds = Thresholds(
            warn=now.warn if warn is None else warn,
            compact=now.compact if compact is None else compact,
            block=now.block if block is None else block,
        )
        return replace(self, thresholds=thresholds)

    def output_limit(self, window: int) -> int:
        """Return the longest tool output, in characters, for a window of `window` tokens."""
        return min(self.max_tool_output_chars, int(window * self.output_share * _CHARS_PER_TOKEN))

    def __post_init__(self) -> None:
        if self.economy not in tuple(Economy):
            known = ", ".join(Economy)
            raise ConfigError(f"economy must be one of {known}, but is {self.economy!r}")
        force_setattr(self, "economy", Economy(self.economy))
        force_setattr(self, "protect", tuple(self.protect))
        for rule in self.protect:
            parse_protection(rule)
        if self.preserve_recent_turns < 1:
            raise ConfigError(
                f"preserve_recent_turns must be at least 1, but is {self.preserve_recent_turns}"
            )
        if self.compress_over is not None and self.compress_over < 1:
            raise ConfigError("compress_tool_results must be true, false or a number above 0")
        if self.max_tool_output_chars < 200:
            raise ConfigError(
                f"max_tool_output_chars must be at least 200, but is {self.max_tool_output_chars}"
            )
        if self.background_compaction not in _BACKGROUND:
            raise ConfigError(
                f"background_compaction must be off, on or auto, not {self.background_compaction!r}"
            )
        if self.usage_floor < 0:
            raise ConfigError(f"usage_floor must not be negative, but is {self.usage_floor}")
