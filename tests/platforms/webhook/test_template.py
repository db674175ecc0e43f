"""Tests templates that turn the fields of a body into a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.platforms.webhook.template import MissingFields, WebhookPost, parse_template

BODY = {
    "action": "opened",
    "issue": {"title": "It {breaks}", "number": 7, "labels": ["bug", {"name": "urgent"}]},
    "draft": False,
    "body": None,
}
POSTED = WebhookPost(body=BODY, headers={"X-Event": "issues"})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{issue.title} (#{issue.number})", "It {breaks} (#7)"),
        ("{issue.labels.0}, {issue.labels.1.name}", "bug, urgent"),
        ("{issue.labels}", '["bug",{"name":"urgent"}]'),
        ("{draft}", "false"),
        ("{ action }", "opened"),
        ("{body|nothing}{none.at.all|}", "nothing"),
        ("{@X-Event}: {@X-Other|?}", "issues: ?"),
        ("{{{action}}}", "{opened}"),
    ],
)
def test_a_field_is_inserted_unchanged(text: str, filled: str) -> None:
    """What a field holds is no template: braces in it are braces."""
    assert parse_template(text).fill(POSTED) == filled


def test_all_missing_fields_are_named_at_once() -> None:
    template = parse_template(
        "{issue.title.x} {body} {issue.labels.9} {issue.labels.x} {@X-Other} {body}"
    )
    with pytest.raises(MissingFields) as raised:
        template.fill(POSTED)
    assert raised.value.names == (
        "issue.title.x",
        "body",
        "issue.labels.9",
        "issue.labels.x",
        "@X-Other",
    )


@pytest.mark.parametrize("text", ["{", "}", "a { b", "{}", "{ |x}", "{a{b}}", "{@}"])
def test_an_invalid_template_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unmatched brace|has no field name"):
        parse_template(text)


def test_a_template_cannot_reach_python_attributes() -> None:
    for name in ("__class__", "issue.__class__", "issue.keys", "0.__init__.__globals__"):
        with pytest.raises(MissingFields):
            parse_template(f"{{{name}}}").fill(POSTED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(text=st.text(alphabet="{}|.@ab0*", max_size=20), body=JSON)
def test_any_template_fills_or_raises_a_known_error(text: str, body: object) -> None:
    try:
        parse_template(text).fill(WebhookPost(body=body, headers={"a": "b"}))
    except (ValueError, MissingFields):
        return
