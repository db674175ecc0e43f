"""How values are formatted for people."""

import pytest

from holdfast.cli.common.output import format_duration, format_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"queued": 0, "answered": 3, "lag": 0.25}, "answered 3, lag 0.25"),
        ({"queued": 0}, "none"),
        ([{"name": "api", "backlog": "none"}, {"name": "x"}], "api (backlog none), x"),
        ([], "none"),
        (True, "yes"),
        (0, "0"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_a_value_is_formatted_on_one_line(value: object, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.34, "0.3 s"), (119, "119.0 s"), (600, "10 min"), (200_000, "2 d")]
)
def test_a_duration_is_formatted_in_a_suitable_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
