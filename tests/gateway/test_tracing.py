"""Traces: the spans of a message, across restarts, and without message texts."""

import re
from pathlib import Path

import msgspec
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.support.approvals import RM, ApprovalHarness
from tests.support.gateway_harness import Call, GatewayHarness, Until

import holdfast
from holdfast.core.config.settings import OtelSettings
from holdfast.core.ops.tracing import TraceSpan, is_sampled, root_span_context
from holdfast.core.turns.tool import ReplayClass
from holdfast.server.otel import OtlpSpanSender
from holdfast.testing.simulated.events import Faults


class SpanCollector:
    """An exporter that keeps all spans."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []

    def export(self, span: TraceSpan) -> None:
        self.spans.append(span)

    def spans_named(self, beginning: str) -> list[TraceSpan]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def only_span(self, beginning: str) -> TraceSpan:
        (span,) = self.spans_named(beginning)
        return span

    def are_one_trace(self) -> bool:
        """Whether all spans are below one root span, which was exported."""
        root = self.only_span("accept").context
        ids = {span.context.span_id for span in self.spans}
        whole = all(span.parent in ids for span in self.spans if span.context != root)
        return whole and {span.context.trace_id for span in self.spans} == {root.trace_id}


@pytest.fixture
async def traced_harness(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    harness.spans = SpanCollector()
    await harness.start()
    return harness


def collector_of(harness: GatewayHarness) -> SpanCollector:
    assert isinstance(harness.spans, SpanCollector)
    return harness.spans


async def test_a_plain_turn_is_followed_from_its_acceptance_to_its_receipt(
    traced_harness: GatewayHarness, until: Until
) -> None:
    traced_harness.model.say("a secret answer")
    traced_harness.say("a private question")
    await traced_harness.sent(1)
    found = collector_of(traced_harness)
    await until(lambda: bool(found.spans_named("deliver")))
    turn, call, delivery = (
        found.only_span("invoke_agent"),
        found.only_span("chat"),
        found.only_span("deliver"),
    )
    root = found.only_span("accept simulated")
    assert found.are_one_trace() and root.parent is None
    assert (turn.parent, call.parent, delivery.parent) == (
        root.context.span_id,
        turn.context.span_id,
        root.context.span_id,
    )
    assert root.began_at <= found.only_span("wait").ended_at <= turn.ended_at <= delivery.ended_at
    asked = call.attributes
    assert asked["gen_ai.operation.name"] == "chat" and asked["gen_ai.provider.name"] == "local"
    assert asked["gen_ai.response.finish_reasons"] == ("stop",)
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= asked.keys()
    assert turn.attributes["gen_ai.conversation.id"] == await traced_harness.only_session()
    assert turn.attributes["holdfast.turn.state"] == "answered"
    assert delivery.attributes["holdfast.delivery.state"] == "sent"
    exported = repr(found.spans)
    assert "secret answer" not in exported and "private question" not in exported


async def test_tool_spans_are_children_of_their_turn(
    traced_harness: GatewayHarness, call: Call
) -> None:
    traced_harness.model.say([call("safe")])
    traced_harness.model.say("done")
    await traced_harness.end_of(await traced_harness.accept("go"))
    found = collector_of(traced_harness)
    turn, tool = found.only_span("invoke_agent"), found.only_span("execute_tool safe")
    assert tool.parent == turn.context.span_id and not tool.error
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "safe"
    reasons = [
        each.attributes["gen_ai.response.finish_reasons"] for each in found.spans_named("chat")
    ]
    assert reasons == [("tool_call",), ("stop",)]
    assert found.are_one_trace()


async def test_an_interrupted_turn_continues_in_the_same_trace(
    traced_harness: GatewayHarness, call: Call
) -> None:
    held_tool = traced_harness.held_tools[ReplayClass.ATTACH]
    held_tool.go.clear()
    traced_harness.model.say([call("attach")])
    accepted = await traced_harness.accept("go")
    await held_tool.wait_until_started(1)
    await traced_harness.die()
    held_tool.known[held_tool.started[0]] = "the true result"
    held_tool.go.set()
    traced_harness.model.say("done")
    await traced_harness.start()
    await traced_harness.end_of(accepted)
    found = collector_of(traced_harness)
    first, second = found.spans_named("invoke_agent")
    assert [part.attributes["holdfast.turn.resumed"] for part in (first, second)] == [False, True]
    assert first.attributes["holdfast.turn.state"] != "answered"
    assert second.attributes["holdfast.turn.state"] == "answered"
    assert first.context.trace_id == second.context.trace_id and first.context != second.context
    interrupted, settled = found.spans_named("execute_tool attach")
    assert interrupted.error and not settled.error
    assert found.are_one_trace()


async def test_the_wait_for_an_approval_is_a_span(tmp_path: Path, call: Call) -> None:
    """J3: the turn is two parts, with the wait between them."""
    harness = ApprovalHarness(tmp_path / "state.db")
    harness.spans = found = SpanCollector()
    await harness.start()
    harness.model.say([call("shell", RM)], "done")
    harness.say("go")
    await harness.pending_approvals()
    harness.say("/approve")
    await harness.wait_for_receipts(3)
    await harness.stop()
    before, after = found.spans_named("invoke_agent")
    states = [part.attributes["holdfast.turn.state"] for part in (before, after)]
    assert states == ["waiting", "answered"]
    assert not after.attributes["holdfast.turn.resumed"], "nothing of it was interrupted"
    waited = found.only_span("wait for approval")
    assert waited.attributes["holdfast.approval.state"] == "approved"
    assert waited.attributes["gen_ai.tool.name"] == "shell"
    assert before.began_at <= waited.began_at <= waited.ended_at <= after.ended_at
    assert found.only_span("execute_tool shell").parent == after.context.span_id
    assert "rm -rf" not in repr(found.spans)


async def test_each_delivery_attempt_is_a_span(
    traced_harness: GatewayHarness, until: Until
) -> None:
    """I2: the first has an unknown outcome, the second is marked and arrives."""
    traced_harness.service.set_faults(Faults(lost_receipts=1))
    traced_harness.model.say("hello")
    traced_harness.say("hi")
    await traced_harness.sent(2)
    found = collector_of(traced_harness)
    await until(lambda: len(found.spans_named("deliver")) == 2)
    first, second = (span.attributes for span in found.spans_named("deliver"))
    states = [each["holdfast.delivery.state"] for each in (first, second)]
    assert states == ["unknown", "sent"]
    assert [each["holdfast.delivery.outcome_unknown"] for each in (first, second)] == [False, True]
    assert [bool(span.error) for span in found.spans_named("deliver")] == [True, False]
    assert found.are_one_trace()


async def test_a_share_of_messages_is_traced_whole_or_not_at_all(
    traced_harness: GatewayHarness,
) -> None:
    await traced_harness.stop()
    traced_harness.settings = msgspec.structs.replace(
        traced_harness.settings, otel=OtelSettings(sample=0.0)
    )
    await traced_harness.start()
    traced_harness.model.say("hello")
    await traced_harness.end_of(await traced_harness.accept("hi"))
    assert collector_of(traced_harness).spans == []
    traces = [root_span_context(number, key="a gateway").trace_id for number in range(1, 2001)]  # type: ignore[arg-type]
    assert 800 < sum(is_sampled(trace, ratio=0.5) for trace in traces) < 1200
    assert all(is_sampled(trace, ratio=1.0) for trace in traces)


async def test_the_sdk_exports_the_spans_of_the_gateway(harness: GatewayHarness) -> None:
    await harness.stop()
    exporter = InMemorySpanExporter()
    harness.spans = sender = OtlpSpanSender(exporter, service="a test")
    await harness.start()
    harness.model.say("hello")
    accepted = await harness.accept("hi")
    await harness.end_of(accepted)
    await harness.stop()
    sender.close()
    spans = {span.name.partition(" ")[0]: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"accept", "wait", "invoke_agent", "chat"}
    root = root_span_context(accepted.row.id, key="")
    assert {span.context.trace_id for span in spans.values() if span.context} == {root.trace_id}
    turn, call = spans["invoke_agent"], spans["chat"]
    assert call.parent is not None and turn.context is not None
    assert call.parent.span_id == turn.context.span_id
    assert turn.parent is not None and turn.parent.span_id == root.span_id
    assert turn.resource.attributes["service.name"] == "a test"
    assert turn.status.status_code is StatusCode.UNSET
    assert call.start_time and call.end_time and call.start_time <= call.end_time
    await harness.start()


def test_nothing_of_opentelemetry_is_imported_before_it_is_needed() -> None:
    source = Path(holdfast.__file__).parent
    texts = {path.relative_to(source).as_posix(): path.read_text() for path in source.rglob("*.py")}
    knows = [name for name, text in texts.items() if re.search(r"(from|import) opentelem", text)]
    asks = [name for name, text in texts.items() if "from holdfast.server.otel" in text]
    assert (knows, asks) == (["server/otel.py"], ["service/main.py"])
    assert not re.search(r"^(from|import) holdfast.server.otel", texts["service/main.py"], re.M)
