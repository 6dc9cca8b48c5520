"""`Economy`: how much of the window a session uses before old content leaves the view.

Every call pays for the whole request again, at a fraction of the price for the part that the
provider reads from its cache. A small view costs less; a large one needs fewer look-ups with
`Recall`. The level is the user's choice; `benchmarks.strategies` measures what each one costs.
"""

from enum import StrEnum

from msgspec import Struct

from clew.context.calibration import estimate_tokens
from clew.context.items import ItemKind
from clew.context.view import View

_HALF = 0.5
_MOST_BALANCED = 200_000
_LEAN_SHARE, _LEAST_LEAN, _MOST_LEAN = 0.16, 24_000, 64_000


class Economy(StrEnum):
    """How much of the window to use."""

    FULL = "full"
    """All of it: nothing leaves the view before the compaction threshold."""
    BALANCED = "balanced"
    """From half of the window on (in large windows from 200,000 tokens on), clear old tool
    results in batches that pay for the broken cache prefix."""
    LEAN = "lean"
    """Keep a small working set, 16 % of the window but between 24,000 and 64,000 tokens, and
    look up the rest with `Recall`."""


class CachePrices(Struct, frozen=True, kw_only=True):
    """Prices, relative to uncached input, and expectations that decide when clearing pays."""

    read_price: float = 0.1
    write_price: float = 1.25
    cold_after: float = 300.0
    """Seconds without a call after which the provider's cache has expired."""
    least_calls: int = 10
    """Least number of expected calls; a session with more calls expects as many again."""
    recent_tokens: int = 16_000
    """Newest part of the conversation, which is never cleared to save cost."""


def clearing_start(economy: Economy, *, window: int) -> int | None:
    """Return the size of a request, in tokens, from which results are cleared to save cost.

    None if they never are. A `lean` session compacts instead: at the same size a digest keeps
    more of what is needed next than markers do.
    """
    if economy is not Economy.BALANCED:
        return None
    return min(int(window * _HALF), _MOST_BALANCED)


def working_set(economy: Economy, view: View, *, window: int) -> int:
    """Return the size that a request may reach, in tokens: at most `window`.

    The working set of `lean` does not count what a compaction cannot reduce: the system prompt,
    the tools, pinned messages and the current request. After an undo the whole window counts
    until the next compaction.
    """
    if economy is not Economy.LEAN or _has_restored(view):
        return window
    messages = min(max(int(window * _LEAN_SHARE), _LEAST_LEAN), _MOST_LEAN)
    lasting = round(_lasting_units(view) * view.calibration.rate)
    return min(window, fixed_tokens(view) + lasting + messages)


def fixed_tokens(view: View) -> int:
    """Return the size of a request without messages: the system prompt and the tools."""
    return estimate_tokens(view.calibration, view.system_units + view.tool_units)


def _lasting_units(view: View) -> int:
    """Return the size of the current request and the pinned messages."""
    places = range(len(view.items) - 1, -1, -1)
    asked = next((n for n in places if view.items[n].kind is ItemKind.USER), None)
    request = view.items[asked] if asked is not None else None
    pinned = [item for item in view.items if item.entry_id in view.pinned] if view.pinned else []
    lasting = {item.entry_id: item.units for item in [*pinned, *([request] if request else [])]}
    return sum(lasting.values())


def _has_restored(view: View) -> bool:
    return bool(view.restored) and any(item.entry_id in view.restored for item in view.items)
