"""What the tokens of a model cost, by the prices in the configuration."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from holdfast.core.turns.turn import Usage

_MILLION = 1_000_000

Money = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a million tokens; all prices are in one currency."""

    input: Money
    output: Money
    cached: Money | None = None  # of cached input tokens; None: as other input

    def cost_of(self, usage: Usage) -> float:
        """The cost of a usage. Reasoning tokens are part of the output, cached tokens part of the
        input."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        spent = (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        )
        return spent / _MILLION


Prices = Mapping[str, Price]  # by the name of a model, or a prefix: "small-*"


def find_price(model: str, prices: Prices) -> Price | None:
    """The price of the exact name, else of the longest matching prefix; None if there is none."""
    if model in prices:
        return prices[model]
    begins = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    return prices[max(begins, key=len)] if begins else None


def total_cost(usage_by_model: Mapping[str, Usage], prices: Prices) -> float | None:
    """The total cost; None if some model has no price."""
    whole = 0.0
    for model, usage in usage_by_model.items():
        price = find_price(model, prices)
        if price is None:
            return None
        whole += price.cost_of(usage)
    return whole
