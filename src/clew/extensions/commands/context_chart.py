"""The context window as a chart: a grid of a hundred cells, one per percent, and a legend."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from clew.context.policy import Thresholds
from clew.core.context_state import Basis, ContextState

_SIGNS = {
    "system": "S",
    "plugins": "P",
    "tools": "T",
    "mcp": "M",
    "user": "u",
    "assistant": "a",
    "reasoning": "r",
    "tool_results": "t",
    "summary": "Σ",
}
_LABELS = {"mcp": "MCP tools"}
_FREE = "·"
_MARKS = {"warn": "!", "compact": "c", "block": "x"}
_SAYS = {
    "warn": "warns at",
    "compact": "compacts at",
    "block": "sends nothing above",
}
_SIDE = 10
_WIDTH = 80


def draw_chart(
    state: ContextState, thresholds: Thresholds, *, model: str, mcp: int = 0, plugins: int = 0
) -> list[str]:
    """Draw the content of the window, at most 80 columns wide; see `list_categories`."""
    counts = list_categories(state, mcp=mcp, plugins=plugins)
    grid = _grid(state, thresholds, counts)
    lines = zip_longest(grid, _legend(state, thresholds, counts), fillvalue=" " * len(grid[0]))
    return [line.rstrip()[:_WIDTH] for line in (_title(state, model), "", *map("  ".join, lines))]


def list_categories(state: ContextState, *, mcp: int = 0, plugins: int = 0) -> dict[str, int]:
    """Return the used tokens by category, in the order of the chart.

    Args:
        state: How full the window is.
        mcp: The tokens of the tools that belong to MCP servers: a category of their own.
        plugins: The tokens of the system prompt that plugins add; likewise.
    """
    found = {name: getattr(state.breakdown, name, 0) for name in _SIGNS}
    for name, of, tokens in (("mcp", "tools", mcp), ("plugins", "system", plugins)):
        if tokens:
            found |= {name: tokens, of: found[of] - tokens}
        else:
            del found[name]
    return found


def share_cells(counts: Mapping[str, int], window: int) -> dict[str, int]:
    """Divide a hundred cells among `counts`; the rest of `window` is free.

    The total number of used cells is the used share, rounded, however it is divided.
    """
    whole = max(1, window, sum(counts.values()))
    shares, sofar, drawn = {}, 0, 0
    for name, tokens in counts.items():
        sofar += tokens
        upto = round(sofar / whole * _SIDE * _SIDE)
        shares[name] = upto - drawn
        drawn = upto
    return shares


def list_thresholds(thresholds: Thresholds, window: int) -> dict[str, dict[str, float]]:
    """Return the thresholds by name, without those that are disabled."""
    shares = {"warn": thresholds.warn, "compact": thresholds.compact, "block": thresholds.block}
    return {
        name: {"percent": round(share * 100, 2), "tokens": int(share * window)}
        for name, share in shares.items()
        if share is not False
    }


def _title(state: ContextState, model: str) -> str:
    about = "" if state.basis is Basis.EXACT else "~"
    numbers = (
        f"{about}{state.used_tokens:,} of {state.max_tokens:,} tokens"
        f" ({state.used_percentage:.1f}%), {state.status}"
    )
    room = _WIDTH - len(numbers) - 2
    name = model if len(model) <= room else f"{model[: room - 1]}…"
    return f"{name}: {numbers}"


def _grid(state: ContextState, thresholds: Thresholds, counts: Mapping[str, int]) -> list[str]:
    shares = share_cells(counts, state.max_tokens)
    drawn = "".join(_SIGNS[name] * count for name, count in shares.items())
    row = list(drawn.ljust(_SIDE * _SIDE, _FREE))
    for name, mark in list_thresholds(thresholds, state.max_tokens).items():
        place = min(len(row) - 1, int(mark["percent"]))
        if row[place] == _FREE:
            row[place] = _MARKS[name]
    return [" ".join(row[at : at + _SIDE]) for at in range(0, len(row), _SIDE)]


def _legend(
    state: ContextState, thresholds: Thresholds, counts: Mapping[str, int]
) -> Sequence[str]:
    used = {name: tokens for name, tokens in counts.items() if tokens}
    free = max(0, state.max_tokens - state.used_tokens)
    lines = [
        f"{_SIGNS.get(name, _FREE)} {_LABELS.get(name) or name.replace('_', ' '):<12} {tokens:>11,}"
        f"  {tokens / state.max_tokens:>6.1%}"
        for name, tokens in (used | {"free": free}).items()
    ]
    found = list_thresholds(thresholds, state.max_tokens)
    lines += [
        f"{_MARKS[name]} {_SAYS[name]} {mark['tokens']:,.0f} ({mark['percent']:g}%)"
        for name, mark in found.items()
    ]
    return lines if "compact" in found else [*lines, "  automatic compaction is off"]
