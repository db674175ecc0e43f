"""Untrusted JSON is read or refused, however deeply it is nested."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.untrusted import decode_json, prune_nesting

DEEP = "[" * 50_000 + "]" * 50_000

VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class NestedNote(msgspec.Struct):
    id: int
    more: msgspec.Raw | None = None
    text: str = ""


@pytest.mark.parametrize("form", [str, str.encode])
def test_fields_beside_deep_nesting_are_read(form: type[str]) -> None:
    body = form(f'[{{"id": 1, "x": {DEEP}, "text": "one"}}, {{"id": 2, "text": "]{{[\\\\\\""}}]')
    first, second = decode_json(body, type=list[NestedNote])
    assert (first.text, second.text) == ("one", ']{[\\"')


def test_a_required_field_with_deep_nesting_is_refused() -> None:
    for body in (f'{{"id": {DEEP}}}', DEEP, DEEP[:60_000], "[" * 60_000):
        with pytest.raises(msgspec.MsgspecError):
            decode_json(body, type=NestedNote)


def test_bytes_that_are_not_valid_text_are_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_json(b'{"id": 1, "text": "\xff"}', type=NestedNote)


@given(VALUES, st.integers(0, 5))
def test_pruned_json_is_the_same_except_for_deeper_levels(value: object, deepest: int) -> None:
    assert json.loads(
        prune_nesting(json.dumps(value).encode(), max_depth=deepest)
    ) == prune_expected(value, deepest)


def prune_expected(value: object, levels: int) -> object:
    if not isinstance(value, list | dict):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [prune_expected(each, levels - 1) for each in value]
    return {key: prune_expected(each, levels - 1) for key, each in value.items()}
