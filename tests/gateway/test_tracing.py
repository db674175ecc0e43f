"""Traces: the way of a message as spans, over restarts, and nothing of what was said in them."""

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


class Collected:
    """A collector that has everything at once."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []

    def export(self, span: TraceSpan) -> None:
        self.spans.append(span)

    def named(self, beginning: str) -> list[TraceSpan]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def one(self, beginning: str) -> TraceSpan:
        (span,) = self.named(beginning)
        return span

    def are_one_trace(self) -> bool:
        """All below one root, which is there."""
        root = self.one("accept").context
        ids = {span.context.span_id for span in self.spans}
        whole = all(span.parent in ids for span in self.spans if span.context != root)
        return whole and {span.context.trace_id for span in self.spans} == {root.trace_id}


@pytest.fixture
async def traced(harness: GatewayHarness) -> GatewayHarness:
    await harness.stop()
    harness.spans = Collected()
    await harness.start()
    return harness


def collected(harness: GatewayHarness) -> Collected:
    assert isinstance(harness.spans, Collected)
    return harness.spans


async def test_a_plain_turn_is_followed_from_its_acceptance_to_its_receipt(
    traced: GatewayHarness, until: Until
) -> None:
    traced.model.say("a secret answer")
    traced.say("a private question")
    await traced.sent(1)
    found = collected(traced)
    await until(lambda: bool(found.named("deliver")))
    turn, call, delivery = found.one("invoke_agent"), found.one("chat"), found.one("deliver")
    root = found.one("accept simulated")
    assert found.are_one_trace() and root.parent is None
    assert (turn.parent, call.parent, delivery.parent) == (
        root.context.span_id,
        turn.context.span_id,
        root.context.span_id,
    )
    assert root.began_at <= found.one("wait").ended_at <= turn.ended_at <= delivery.ended_at
    asked = call.attributes
    assert asked["gen_ai.operation.name"] == "chat" and asked["gen_ai.provider.name"] == "local"
    assert asked["gen_ai.response.finish_reasons"] == ("stop",)
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= asked.keys()
    assert turn.attributes["gen_ai.conversation.id"] == await traced.only_session()
    assert turn.attributes["holdfast.turn.state"] == "answered"
    assert delivery.attributes["holdfast.delivery.state"] == "sent"
    told = repr(found.spans)
    assert "secret answer" not in told and "private question" not in told


async def test_tool_spans_are_children_of_their_turn(traced: GatewayHarness, call: Call) -> None:
    traced.model.say([call("safe")])
    traced.model.say("done")
    await traced.end_of(await traced.accept("go"))
    found = collected(traced)
    turn, tool = found.one("invoke_agent"), found.one("execute_tool safe")
    assert tool.parent == turn.context.span_id and not tool.error
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["gen_ai.tool.name"] == "safe"
    reasons = [each.attributes["gen_ai.response.finish_reasons"] for each in found.named("chat")]
    assert reasons == [("tool_call",), ("stop",)]
    assert found.are_one_trace()


async def test_an_interrupted_turn_continues_in_the_same_trace(
    traced: GatewayHarness, call: Call
) -> None:
    lever = traced.held_tools[ReplayClass.ATTACH]
    lever.go.clear()
    traced.model.say([call("attach")])
    accepted = await traced.accept("go")
    await lever.wait_until_started(1)
    await traced.die()
    lever.known[lever.started[0]] = "the true result"
    lever.go.set()
    traced.model.say("done")
    await traced.start()
    await traced.end_of(accepted)
    found = collected(traced)
    first, second = found.named("invoke_agent")
    assert [part.attributes["holdfast.turn.resumed"] for part in (first, second)] == [False, True]
    assert first.attributes["holdfast.turn.state"] != "answered"
    assert second.attributes["holdfast.turn.state"] == "answered"
    assert first.context.trace_id == second.context.trace_id and first.context != second.context
    cut, settled = found.named("execute_tool attach")
    assert cut.error and not settled.error
    assert found.are_one_trace()


async def test_the_wait_for_an_approval_is_a_span(tmp_path: Path, call: Call) -> None:
    """J3: the turn is two parts, with the wait between them."""
    harness = ApprovalHarness(tmp_path / "state.db")
    harness.spans = found = Collected()
    await harness.start()
    harness.model.say([call("shell", RM)], "done")
    harness.say("go")
    await harness.pending_approvals()
    harness.say("/approve")
    await harness.wait_for_receipts(3)
    await harness.stop()
    before, after = found.named("invoke_agent")
    states = [part.attributes["holdfast.turn.state"] for part in (before, after)]
    assert states == ["waiting", "answered"]
    assert not after.attributes["holdfast.turn.resumed"], "nothing of it was cut"
    waited = found.one("wait for approval")
    assert waited.attributes["holdfast.approval.state"] == "approved"
    assert waited.attributes["gen_ai.tool.name"] == "shell"
    assert before.began_at <= waited.began_at <= waited.ended_at <= after.ended_at
    assert found.one("execute_tool shell").parent == after.context.span_id
    assert "rm -rf" not in repr(found.spans)


async def test_each_delivery_attempt_is_a_span(traced: GatewayHarness, until: Until) -> None:
    """I2: the first has an unknown outcome, the second is marked and arrives."""
    traced.service.set_faults(Faults(lost_receipts=1))
    traced.model.say("hello")
    traced.say("hi")
    await traced.sent(2)
    found = collected(traced)
    await until(lambda: len(found.named("deliver")) == 2)
    first, second = (span.attributes for span in found.named("deliver"))
    states = [each["holdfast.delivery.state"] for each in (first, second)]
    assert states == ["unknown", "sent"]
    assert [each["holdfast.delivery.outcome_unknown"] for each in (first, second)] == [False, True]
    assert [bool(span.error) for span in found.named("deliver")] == [True, False]
    assert found.are_one_trace()


async def test_a_share_of_messages_is_traced_whole_or_not_at_all(traced: GatewayHarness) -> None:
    await traced.stop()
    traced.settings = msgspec.structs.replace(traced.settings, otel=OtelSettings(sample=0.0))
    await traced.start()
    traced.model.say("hello")
    await traced.end_of(await traced.accept("hi"))
    assert collected(traced).spans == []
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
