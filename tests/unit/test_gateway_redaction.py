"""Redaction of what streams: whatever the cuts, the same text as of the whole, and no secret."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events import StepEnded, StreamVoided, TextStreamed
from holdfast.core.secret import Secret
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.showing import Showing

SECRETS = ("abababac", "aaaaaaaab")
redact = Redaction([Secret(value) for value in SECRETS])


@given(st.lists(st.text("abc ", max_size=12), max_size=12), st.sampled_from(SECRETS), st.data())
def test_no_cut_lets_a_secret_through(parts: list[str], secret: str, data: st.DataObject) -> None:
    """Law 13: exact values, on the way out."""
    parts.insert(data.draw(st.integers(0, len(parts))), secret)
    text = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    showing = Showing(redact)
    shown = [event for piece in pieces for event in showing.of(TextStreamed(piece))]
    shown += showing.of(StepEnded(text))
    told = "".join(event.text for event in shown if isinstance(event, TextStreamed))
    assert not any(value in told for value in SECRETS)
    assert told.replace("[redacted]", "") == told or "[redacted]" in redact(text)


def test_ordinary_text_is_shown_at_once() -> None:
    showing = Showing(redact)
    assert list(showing.of(TextStreamed("hello"))) == [TextStreamed("hello")]
    assert list(showing.of(TextStreamed(" ab"))) == [TextStreamed(" ")]
    assert list(showing.of(TextStreamed("out"))) == [TextStreamed("about")]


def test_what_was_held_back_comes_before_the_step_ends_and_goes_with_a_voided_one() -> None:
    showing = Showing(redact)
    list(showing.of(TextStreamed("ab")))
    assert list(showing.of(StepEnded("ab"))) == [TextStreamed("ab"), StepEnded("ab")]
    list(showing.of(TextStreamed("ab")))
    assert list(showing.of(StreamVoided("why"))) == [StreamVoided("why")]
    assert list(showing.of(TextStreamed("c"))) == [TextStreamed("c")]
