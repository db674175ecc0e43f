"""What the tokens of a model cost, by the prices in the configuration."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from holdfast.core.turns.turn import Usage

_MILLION = 1_000_000

Money = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money for a million tokens, in whatever currency all prices are set in."""

    input: Money
    output: Money
    cached: Money | None = None  # of the input, what the vendor had cached; None: as other input

    def cost_of(self, usage: Usage) -> float:
        """The tokens of reasoning are among those of the output, the cached among the input."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        spent = (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        )
        return spent / _MILLION


Prices = Mapping[str, Price]  # by the name of a model, or the beginning of names: "small-*"


def find_price(model: str, prices: Prices) -> Price | None:
    """By its whole name, else by the longest beginning that fits; None: nobody has set one."""
    if model in prices:
        return prices[model]
    begins = [name for name in prices if name.endswith("*") and model.startswith(name[:-1])]
    return prices[max(begins, key=len)] if begins else None


def total_cost(usage_by_model: Mapping[str, Usage], prices: Prices) -> float | None:
    """What all of it cost; None: for some of it no price is set."""
    whole = 0.0
    for model, usage in usage_by_model.items():
        price = find_price(model, prices)
        if price is None:
            return None
        whole += price.cost_of(usage)
    return whole
