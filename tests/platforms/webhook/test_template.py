"""Templates: fields of a body put into words, whatever is posted and whatever is written."""

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
def test_a_field_is_put_in_as_it_is(text: str, filled: str) -> None:
    """What a field holds is no template: braces in it are braces."""
    assert parse_template(text).fill(POSTED) == filled


def test_all_that_is_missing_is_named_at_once() -> None:
    template = parse_template(
        "{issue.title.x} {body} {issue.labels.9} {issue.labels.x} {@X-Other} {body}"
    )
    with pytest.raises(MissingFields) as told:
        template.fill(POSTED)
    assert told.value.names == (
        "issue.title.x",
        "body",
        "issue.labels.9",
        "issue.labels.x",
        "@X-Other",
    )


@pytest.mark.parametrize("text", ["{", "}", "a { b", "{}", "{ |x}", "{a{b}}", "{@}"])
def test_what_is_no_template_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=r"brace stands alone|names no field"):
        parse_template(text)


def test_nothing_of_python_is_within_reach() -> None:
    for name in ("__class__", "issue.__class__", "issue.keys", "0.__init__.__globals__"):
        with pytest.raises(MissingFields):
            parse_template(f"{{{name}}}").fill(POSTED)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(text=st.text(alphabet="{}|.@ab0*", max_size=20), body=JSON)
def test_no_template_and_no_body_do_more_than_fill_or_say_why_not(text: str, body: object) -> None:
    try:
        parse_template(text).fill(WebhookPost(body=body, headers={"a": "b"}))
    except (ValueError, MissingFields):
        return
