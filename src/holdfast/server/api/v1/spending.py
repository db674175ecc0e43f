"""Spending: what was used by models, as money, where prices are set."""

from collections.abc import Mapping

from holdfast.core.turns.pricing import Prices, total_cost
from holdfast.core.turns.turn import Usage


def usage_cost(usage_by_model: Mapping[str, Usage], prices: Prices) -> float | None:
    """None: for some of it no price is set.

    What was used beside the agent's own requests (a summary, a picture described) is reckoned to
    the model that did most of the rest: by which it was done is kept nowhere.
    """
    beside, named = (
        usage_by_model.get(""),
        {model: usage for model, usage in usage_by_model.items() if model},
    )
    if beside is None or not named:
        return total_cost(usage_by_model, prices)
    most = max(named, key=lambda model: named[model].input_tokens)
    return total_cost({**named, most: named[most] + beside}, prices)
