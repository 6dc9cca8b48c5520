"""Money: what a call cost, and when to stop."""

import math
from collections.abc import Mapping

from msgspec import Struct

from clew.core.errors import BudgetReached, ConfigError
from clew.core.usage import Spending, Usage
from clew.providers.prices import Price, price


class CostLimit(Struct, frozen=True, kw_only=True):
    """The prices and the limit of one session."""

    budget: float | None = None
    """US dollars that the session may cost; None for no limit."""
    prices: Mapping[str, Price] = {}
    """Prices that count before those of the catalogue, by model."""

    def cost(self, usage: Usage, *, provider: str, model: str) -> float | None:
        """Return what a call cost in US dollars; None when nobody knows."""
        return price(usage, provider=provider, model=model, overrides=self.prices)

    def check(self, spent: Spending, *, provider: str, model: str) -> None:
        """Make sure that another call is within the budget.

        Raises:
            BudgetReached: It is spent, or cannot be kept because the price is unknown.
        """
        if self.budget is None:
            return
        if spent.usd >= self.budget:
            raise BudgetReached(
                f"the session has cost ${spent.usd:.4f} of its budget of ${self.budget:.2f}."
                " Raise the budget to go on; nothing is lost."
            )
        if self.cost(Usage(), provider=provider, model=model) is None:
            raise BudgetReached(
                f"the price of {model} on {provider} is unknown, so the budget of"
                f" ${self.budget:.2f} cannot be kept. Give its price, or run without a budget."
            )


def cost_limit_for(budget: float | None, prices: Mapping[str, Price]) -> CostLimit:
    """Make a purse.

    Raises:
        ConfigError: The budget is not an amount of money.
    """
    if budget is not None and not (math.isfinite(budget) and budget >= 0):
        raise ConfigError(f"a budget of {budget} dollars is not an amount of money")
    return CostLimit(budget=budget, prices=prices)
