"""Crash points do nothing unless configured, and a wrong name is an error."""

import pytest

from holdfast.core.crash_points import CrashPoint, no_crash
from holdfast.core.errors import HoldfastError
from holdfast.service.fault_injection import parse_crash_point


def test_without_a_configured_crash_a_point_does_nothing() -> None:
    """Free when off: no order is looked up, counted or compared."""
    assert parse_crash_point("") is no_crash
    assert [no_crash(point) for point in CrashPoint] == [None] * len(CrashPoint)


@pytest.mark.parametrize("order", ["nowhere", "sent:often", "sent:-1", ":2"])
def test_an_invalid_crash_point_is_refused_with_the_list_of_all(order: str) -> None:
    with pytest.raises(HoldfastError) as wrong:
        parse_crash_point(order)
    assert all(point in str(wrong.value) for point in CrashPoint)
