"""A history may be cut where no call is parted from its result, and is valid ever after."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.config.settings import VisionMode
from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.compaction import (
    compaction_point,
    estimate_tokens,
    open_request,
    render_for_summary,
    visible_messages,
)
from holdfast.core.turns.model import DEFAULT_CONTEXT_WINDOW, accepts_images, context_window
from holdfast.core.turns.projection import (
    FILES_OMITTED,
    RESULT_OMITTED,
    project,
    projection_problems,
    trim_projection,
)

TEXTS = st.text(st.sampled_from("ab é字"), min_size=1, max_size=60)


@st.composite
def steps(draw: st.DrawFn, number: int) -> list[Message]:
    """A model's reply with calls, and their results, in any order, a steer among them."""
    ids = [CallId(f"{number}.{place}") for place in range(draw(st.integers(0, 3)))]
    calls = tuple(ToolCall(id=id, name="terminal", arguments="{}") for id in ids)
    results: list[Message] = [ToolMessage(call_id=i, name="terminal", text="ok" * 20) for i in ids]
    between = draw(st.lists(st.builds(UserMessage, text=TEXTS), max_size=1))
    return [
        AssistantMessage(text=draw(TEXTS), calls=calls),
        *draw(st.permutations([*results, *between])),
    ]


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    """A log as the gateway writes it: calls have results, summaries cover what stood there."""
    log: list[Message] = []
    for number in range(draw(st.integers(0, 8))):
        log.append(UserMessage(text=draw(TEXTS)))
        log += draw(steps(number))
        if draw(st.booleans()):
            log.append(NoteMessage(text="[System note: x]"))
        if draw(st.integers(0, 5)) == 0:
            cut = compaction_point(log, keep_tokens=draw(st.integers(0, 200)))
            if cut:
                log.append(CompactionMessage(text="a summary", covers=cut))
    return log


@given(logs(), st.integers(0, 400))
def test_a_compacted_history_is_one_that_strict_servers_accept(
    log: list[Message], keep: int
) -> None:
    """H7: wherever it is cut, and however often."""
    cut = compaction_point(log, keep_tokens=keep)
    projected = project([*log, CompactionMessage(text="a summary", covers=cut)])
    assert projection_problems(projected) == []
    assert projection_problems(trim_projection(projected, excess=10_000)) == []


@given(logs(), st.integers(0, 400))
def test_no_call_is_separated_from_its_result(log: list[Message], keep: int) -> None:
    cut = compaction_point(log, keep_tokens=keep)
    before = {c.id for m in log[:cut] if isinstance(m, AssistantMessage) for c in m.calls}
    after = {m.call_id for m in log[cut:] if isinstance(m, ToolMessage)}
    assert not before & after


@given(logs(), st.integers(0, 400))
def test_messages_that_a_summary_does_not_cover_are_unchanged(
    log: list[Message], keep: int
) -> None:
    cut = compaction_point(log, keep_tokens=keep)
    shown = list(visible_messages([*log, CompactionMessage(text="s", covers=cut)]))
    assert shown[1:] == [m for m in log[cut:] if not isinstance(m, CompactionMessage)]


@given(logs(), st.integers(0, 400), st.integers(0, 30))
def test_a_buffer_without_what_is_covered_projects_to_the_same(
    log: list[Message], keep: int, drop: int
) -> None:
    """A10, A12: who was evicted is shown what it would have been shown."""
    cut = compaction_point(log, keep_tokens=keep)
    whole = [*log, CompactionMessage(text="s", covers=cut)]
    skipped = min(drop, cut)
    assert project(whole[skipped:], skipped=skipped) == project(whole)


@given(logs(), st.integers(0, 400))
def test_the_tail_fits_or_is_the_last_exchange(log: list[Message], keep: int) -> None:
    cut = compaction_point(log, keep_tokens=keep)
    if not cut:
        return
    tail = [m for m in log[cut:] if not isinstance(m, CompactionMessage)]
    replies = sum(isinstance(message, AssistantMessage) for message in tail)
    assert sum(map(estimate_tokens, tail)) <= keep + 10 or replies <= 1


def test_a_compaction_inside_a_turn_repeats_the_question() -> None:
    log: list[Message] = [UserMessage(text="count the stars")]
    for number in range(6):
        call = ToolCall(id=CallId(str(number)), name="t", arguments="{}")
        log += [AssistantMessage(calls=(call,)), ToolMessage(call_id=call.id, name="t", text="x")]
    cut = compaction_point(log, keep_tokens=60)
    assert 0 < cut < len(log)
    assert "count the stars" in open_request(log, cut)
    assert open_request([*log, UserMessage(text="and?")], cut) == ""


def test_the_summariser_reads_what_happened_and_not_megabytes() -> None:
    text = render_for_summary(
        [ToolMessage(call_id=CallId("1"), name="read", text="a" * 10**6 + "the error")]
    )
    assert len(text) < 5_000
    assert text.endswith("the error")
    assert "characters" in text


def test_results_are_left_out_the_oldest_first_and_no_more_than_needed() -> None:
    log: list[Message] = [UserMessage(text="go")]
    for number in range(4):
        call = ToolCall(id=CallId(str(number)), name="t", arguments="{}")
        log.append(AssistantMessage(calls=(call,)))
        log.append(ToolMessage(call_id=call.id, name="t", text="z" * 4_000))
    light = trim_projection(project(log), excess=1_500)
    assert [m.text == RESULT_OMITTED for m in light if isinstance(m, ToolMessage)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_text_of_old_files_is_dropped_like_old_results_and_the_text_beside_it_stays() -> None:
    log = [UserMessage(text=f"read {number}", documents="z" * 4_000) for number in range(3)]
    light = trim_projection(log, excess=1_500)
    assert [m.documents for m in light if isinstance(m, UserMessage)] == [
        FILES_OMITTED,
        FILES_OMITTED,
        log[2].documents,
    ]
    assert [m.text for m in light] == [m.text for m in log]


def test_models_are_known_by_their_names() -> None:
    assert context_window("claude-sonnet-4-5") == 200_000
    assert context_window("openai/gpt-4.1-mini") == 1_000_000
    assert context_window("a-model-of-my-own") == DEFAULT_CONTEXT_WINDOW
    assert not accepts_images("deepseek-chat")
    assert not accepts_images("o3-mini")
    assert accepts_images("gpt-5.1")
    assert accepts_images("deepseek-chat", VisionMode.YES)
    assert not accepts_images("gpt-5.1", VisionMode.NO)
