"""The trace of one turn: its model calls and its tools, below one span for what this process runs
of it."""

from collections.abc import Mapping, Sequence

from holdfast.core.ids import CallId, SessionId, TurnId
from holdfast.core.messages.events import Event, ToolBegan, ToolEnded
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import Outcome, StopReason
from holdfast.core.ops.tracing import Span, SpanKind, Value
from holdfast.core.turns.model import Completed
from holdfast.core.turns.turn import EndTurn, TurnState, Usage
from holdfast.gateway.traces import Traces

_FAILED = frozenset({Outcome.ERROR, Outcome.UNKNOWN})
_REASONS = {  # in the words of the conventions
    StopReason.END: "stop",
    StopReason.TOOL_CALLS: "tool_call",
    StopReason.LENGTH: "length",
    StopReason.FILTERED: "content_filter",
}
_LONGEST_NAME = 100


class TurnTrace:
    """Owns what is under way in a turn: the call of the model, and the tools that run.

    It belongs to the trace of the message that the turn answers; those that were merged into it
    are linked.
    """

    def __init__(
        self,
        traces: Traces,
        rows: Sequence[InboxRow],
        *,
        session_id: SessionId,
        turn_id: TurnId,
        resumed: bool,
    ) -> None:
        self._traces = traces
        self._rows = rows
        self._place = traces.below(rows[-1].id)
        self._began_at = traces.clock.now()
        self._session_id = session_id
        self._turn_id = turn_id
        self._resumed = resumed
        self._asked_at: float | None = None
        self._tools: dict[CallId, tuple[str, float]] = {}
        self._over = False

    def asking(self) -> None:
        """The model is asked; a call that has not come back by then has failed."""
        self._give_up_asking("failed")
        self._asked_at = self._traces.clock.now()

    def heard(self, completed: Completed) -> None:
        message = completed.message
        reason = StopReason.TOOL_CALLS if message.calls else message.stop
        attributes = {
            **self._of_model(message.model),
            **_usage(completed.usage),
            "gen_ai.response.model": message.model or self._traces.model.name,
            "gen_ai.response.finish_reasons": (_REASONS[reason],),
        }
        self._model_call(attributes)

    def saw(self, event: Event) -> None:
        if isinstance(event, ToolBegan):
            # A model may call what is not there by any name it likes.
            name = self._traces.redact(event.name)[:_LONGEST_NAME]
            self._tools[event.call_id] = name, self._traces.clock.now()
        elif isinstance(event, ToolEnded):
            self._tool(event.call_id, event.outcome.value, failed=event.outcome in _FAILED)

    def ended(self, end: EndTurn) -> None:
        """That is durable."""
        failed = end.state is TurnState.FAILED
        self._close(
            end.state.value, ended_at=end.at, error=end.state.value if failed else "", of=end.usage
        )

    def left(self, how: str) -> None:
        """This process runs no more of it."""
        self._close(how, ended_at=self._traces.clock.now())

    def _close(
        self, state: str, *, ended_at: float, error: str = "", of: Usage | None = None
    ) -> None:
        if self._over:
            return
        self._over = True
        self._give_up_asking(state)
        for call_id in list(self._tools):
            self._tool(call_id, state, failed=True)
        first, *merged = reversed(self._rows)
        self._traces.tell(
            Span(
                place=self._place,
                parent=self._traces.root(first.id).span,
                name="invoke_agent holdfast",
                began_at=self._began_at,
                ended_at=ended_at,
                attributes={
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": "holdfast",
                    "gen_ai.provider.name": self._traces.model.provider,
                    "gen_ai.conversation.id": self._session_id,
                    "holdfast.turn.id": self._turn_id,
                    "holdfast.turn.state": state,
                    "holdfast.turn.resumed": self._resumed,
                    **(_usage(of) if of is not None else {}),
                },
                links=tuple(self._traces.root(row.id) for row in merged),
                error=error,
            )
        )

    def _give_up_asking(self, why: str) -> None:
        if self._asked_at is not None:
            self._model_call(self._of_model(""), error=why)

    def _model_call(self, attributes: Mapping[str, Value], *, error: str = "") -> None:
        now = self._traces.clock.now()
        began_at, self._asked_at = self._asked_at, None
        name = f"chat {attributes['gen_ai.request.model']}"
        began_at = now if began_at is None else began_at
        self._inside(name, attributes, kind=SpanKind.CLIENT, began_at=began_at, error=error)

    def _of_model(self, name: str) -> dict[str, Value]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._traces.model.provider,
            "gen_ai.request.model": name or self._traces.model.name,
            "gen_ai.conversation.id": self._session_id,
        }

    def _tool(self, call_id: CallId, outcome: str, *, failed: bool) -> None:
        begun = self._tools.pop(call_id, None)
        if begun is None:
            return  # it was refused, and never ran
        name, began_at = begun
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
            "holdfast.tool.outcome": outcome,
        }
        error = outcome if failed else ""
        self._inside(f"execute_tool {name}", attributes, began_at=began_at, error=error)

    def _inside(
        self,
        name: str,
        attributes: Mapping[str, Value],
        *,
        began_at: float,
        error: str,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        self._traces.tell(
            Span(
                place=self._traces.below(self._rows[-1].id),
                parent=self._place.span,
                name=name,
                kind=kind,
                began_at=began_at,
                ended_at=self._traces.clock.now(),
                attributes=attributes,
                error=error,
            )
        )


def _usage(usage: Usage) -> dict[str, Value]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
