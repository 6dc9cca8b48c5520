"""The limits of a session: what it may cost, and how often a model may repeat itself."""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from msgspec import UNSET, Struct
from msgspec.structs import replace

from clew.context.view import View
from clew.core.errors import BudgetReached, ConfigError
from clew.core.messages import ToolCall
from clew.core.usage import Spending, Usage
from clew.providers.prices import Price, price


def format_dollars(usd: float) -> str:
    """Return an amount with two digits, or with as many as it has: `$0.0001`."""
    digits = f"{usd:.6f}".rstrip("0")
    return f"${usd:.2f}" if len(digits.partition(".")[2]) <= len("00") else f"${digits}"


class CostLimit(Struct, frozen=True, gc=False, kw_only=True):
    """The prices and the budget of one session."""

    budget: float | None = None
    """US dollars that the session may cost; None for no limit."""
    prices: Mapping[str, Price] = {}
    """Prices by model; they take precedence over those of the catalogue."""
    remedy: str = "compact the conversation"
    """What makes the next call cheaper."""

    def cost(self, usage: Usage, *, provider: str, model: str) -> float | None:
        """Return the cost of a call in US dollars; None when the price is unknown."""
        return price(usage, provider=provider, model=model, overrides=self.prices)

    def check(self, spent: Spending, *, provider: str, model: str, expected: Usage) -> None:
        """Check that the budget allows a call that takes the `expected` tokens.

        Raises:
            BudgetReached: The call would exceed the budget, or the price of the model is unknown.
        """
        if self.budget is None:
            return
        if spent.usd >= self.budget:
            raise BudgetReached(
                f"the session has cost ${spent.usd:.4f} of its budget of"
                f" {format_dollars(self.budget)}. Raise the budget to continue; nothing is lost."
            )
        cost = self.cost(expected, provider=provider, model=model)
        if cost is None:
            raise BudgetReached(
                f"the price of {model} on {provider} is unknown, so the budget of"
                f" {format_dollars(self.budget)} cannot be enforced. Set its price, or run without"
                " a budget."
            )
        if spent.usd + cost > self.budget:
            raise BudgetReached(
                f"the next call to {model} would cost about ${cost:.4f}"
                f" ({expected.input_tokens:,} tokens in, about {expected.output_tokens:,} out), and"
                f" ${self.budget - spent.usd:.4f} of the budget of"
                f" {format_dollars(self.budget)} is left. Raise the budget or {self.remedy} to"
                " continue; nothing is lost."
            )

    def limit_output(
        self, left: float, *, provider: str, model: str, expected: Usage, most: int
    ) -> int:
        """Return how many tokens of an answer the rest of a budget pays for: 1 to `most`.

        A provider stops the answer there, so that one long answer cannot exceed the budget.

        Args:
            left: US dollars that may still be spent.
            provider: The provider's name.
            model: The model to call.
            expected: The tokens that the call is likely to take.
            most: The tokens that the model may write without a budget.
        """
        without = self.cost(replace(expected, output_tokens=0), provider=provider, model=model)
        longest = self.cost(replace(expected, output_tokens=most), provider=provider, model=model)
        if without is None or longest is None or longest <= without:
            return most
        return max(1, min(most, int(most * (left - without) / (longest - without))))


class SharedBudget:
    """One budget for a session and its subagents, which may make calls at the same time.

    Args:
        limit: Returns what they may cost together in US dollars; None for no limit.
    """

    def __init__(self, limit: Callable[[], float | None]) -> None:
        self._limit = limit
        self._costs: dict[str, Callable[[], float]] = {}

    def join(self, member: str, cost: Callable[[], float]) -> None:
        """Count what a member has cost, including what it has reserved for a call in progress."""
        self._costs[member] = cost

    def leave(self, member: str) -> None:
        """Stop counting a member, because its cost was charged to another one."""
        self._costs.pop(member, None)

    @property
    def limit(self) -> float | None:
        """US dollars that all members may cost together; None for no limit."""
        return self._limit()

    @property
    def spent(self) -> float:
        """US dollars that all members have cost or reserved."""
        return sum(cost() for cost in self._costs.values())


_FIRST_OUTPUT = 300
"""Tokens expected of the first answer."""


def expect_usage(view: View, tokens: int, *, spent: Spending, is_warm: bool) -> Usage:
    """Estimate the next call: what the conversation holds, and an answer of average length.

    Args:
        view: The conversation.
        tokens: Its size in tokens.
        spent: The calls so far; their average answer is expected again.
        is_warm: True if the provider still caches the prompt of the last call.
    """
    output = spent.usage.output_tokens // spent.calls if spent.calls else _FIRST_OUTPUT
    cached = 0
    if is_warm and view.anchor is not None and spent.usage.cache_read_tokens:
        cached = min(view.anchor.tokens, tokens)
    written = tokens - cached if spent.usage.cache_write_tokens else 0
    return Usage(
        input_tokens=tokens,
        output_tokens=min(output, view.setup.model.max_output),
        cache_read_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=(written if spent.usage.hourly_write_tokens else 0) or UNSET,
    )


def make_cost_limit(budget: float | None, prices: Mapping[str, Price]) -> CostLimit:
    """Return the limit for a budget; None means no limit.

    Raises:
        ConfigError: The budget is not an amount of money.
    """
    if budget is not None and not (math.isfinite(budget) and budget >= 0):
        raise ConfigError(f"a budget must be 0 or more US dollars, not {budget}")
    return CostLimit(budget=budget, prices=prices)


WARN_AFTER, REFUSE_AFTER, STOP_AFTER = 3, 6, 9
_REMEMBERED = 40


class LoopAdvice(Enum):
    """What to do about a repeated call."""

    RUN = "run"
    WARN = "warn"
    """Run it, and add a warning to its result."""
    REFUSE = "refuse"
    """Do not run it; the result says why."""
    STOP = "stop"
    """End the run: the model ignored the warnings and the refusals."""


class LoopGuard:
    """Counts calls with the same arguments and the same result since the last prompt.

    Polling is not a loop: a model that waits for a build repeats its call, but the results differ.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._seen: Sequence[tuple[str, str, str]] = ()
        self._refused = 0

    def check(self, call: ToolCall) -> LoopAdvice:
        """Decide how to treat the next call."""
        times = self._times(call) if self._enabled else 0
        if times < REFUSE_AFTER:
            return LoopAdvice.WARN if times >= WARN_AFTER - 1 else LoopAdvice.RUN
        self._refused += 1
        return LoopAdvice.STOP if times + self._refused > STOP_AFTER else LoopAdvice.REFUSE

    def record(self, call: ToolCall, text: str) -> None:
        """Remember the result of a call."""
        if self._enabled:
            self._seen = (*self._seen[-_REMEMBERED + 1 :], (call.name, call.arguments, text))

    def reset(self) -> None:
        """Forget all calls, because a new prompt came."""
        self._seen = ()
        self._refused = 0

    def _times(self, call: ToolCall) -> int:
        """Return how often this call had the result that it had last."""
        wanted = (call.name, call.arguments)
        answers = [text for name, arguments, text in self._seen if (name, arguments) == wanted]
        return answers.count(answers[-1]) if answers else 0
