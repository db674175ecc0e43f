"""Crash points: nothing where nobody asks for one, and a clear word where the order is wrong."""

import pytest

from holdfast.core.crash_points import CrashPoint, never
from holdfast.core.errors import HoldfastError
from holdfast.service.crashing import crash_at


def test_without_an_order_a_point_is_a_function_that_does_nothing() -> None:
    """Free when off: no order is looked up, counted or compared."""
    assert crash_at("") is never
    assert [never(point) for point in CrashPoint] == [None] * len(CrashPoint)


@pytest.mark.parametrize("order", ["nowhere", "sent:often", "sent:-1", ":2"])
def test_an_order_that_is_none_names_every_point_there_is(order: str) -> None:
    with pytest.raises(HoldfastError) as wrong:
        crash_at(order)
    assert all(point in str(wrong.value) for point in CrashPoint)
