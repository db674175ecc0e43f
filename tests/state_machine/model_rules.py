"""Rules: the model replies and calls tools, and tools return."""

import json

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.approval_rules import ANSWERS, ApprovalRules
from tests.state_machine.driver import MAX_LENGTH, SENDERS, TICKS
from tests.state_machine.model import ModelOutput, StreamFault, TextReply, ToolRequest
from tests.state_machine.tools import SHELL, SHELL_COMMANDS

from holdfast.core.jobs.job import SCHEDULE_TOOL
from holdfast.core.turns.tool import ReplayClass

SHELL_CALLS = st.sampled_from(SHELL_COMMANDS).map(
    lambda word: ToolRequest(SHELL, json.dumps({"command": word}))
)
BLOCKING_CALLS = st.sampled_from([*ReplayClass, "no such tool"]).map(ToolRequest)
CALLS = st.lists(st.one_of(BLOCKING_CALLS, SHELL_CALLS), min_size=1, max_size=3)
LONG_TEXT = " ".join(["and on"] * (MAX_LENGTH // 6))
TEXTS = st.sampled_from(
    ["answer to {}", "answer to {}", f"answer to {{}} {LONG_TEXT}", "", "[SILENT]"]
)
FAULTS = st.sampled_from([StreamFault.NONE, StreamFault.NONE, StreamFault.NONE, *StreamFault])
QUICK_REPLIES = st.builds(TextReply, text=TEXTS, pause=st.just(0.0), fault=FAULTS)
SLOW_REPLIES = st.builds(
    TextReply, text=TEXTS, pause=st.sampled_from([0.3, 2.0]), fault=st.sampled_from(StreamFault)
)
OUTPUTS = st.one_of(QUICK_REPLIES, SLOW_REPLIES, CALLS)


class ModelRules(ApprovalRules):
    """Owns nothing: the model has the pending requests."""

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(data=st.data(), text_reply=QUICK_REPLIES, ticks=TICKS)
    def answer(self, data: st.DataObject, text_reply: TextReply, ticks: int) -> None:
        self._reply(data, text_reply, ticks)

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(
        data=st.data(), text_reply=SLOW_REPLIES, seconds=st.sampled_from([0.7, 3, 10]), ticks=TICKS
    )
    def answer_slowly(
        self, data: st.DataObject, text_reply: TextReply, seconds: float, ticks: int
    ) -> None:
        """Reply so slowly that the chat shows the reply while it is streamed."""
        self._reply(data, text_reply, ticks)
        self.home.loop.wait(seconds)

    @precondition(lambda self: self.home.ready)
    @rule(posted_by=SENDERS, output=OUTPUTS, seconds=st.sampled_from([0, 0.7, 3, 10]), ticks=TICKS)
    def exchange(
        self, posted_by: tuple[str, str], output: ModelOutput, seconds: float, ticks: int
    ) -> None:
        """Send a message and answer its model request; drawn separately, they seldom meet."""
        self.write(*posted_by, self.unique_text(), 50)
        pending = self.home.current_run.model.pending
        if (
            pending
            and not pending[-1].output.done()
            and (pending[-1].tools or isinstance(output, TextReply))
        ):
            pending[-1].output.set_result(self._with_unique_text(output))
        self.home.loop.wait(seconds)
        self.home.loop.tick(ticks)

    def _with_unique_text(self, output: ModelOutput) -> ModelOutput:
        """A reply whose text is unique."""
        return (
            output._replace(text=output.text.format(self.unique_text()))
            if isinstance(output, TextReply)
            else output
        )

    def _reply(self, data: st.DataObject, text_reply: TextReply, ticks: int) -> None:
        request = data.draw(st.sampled_from(self.home.current_run.model.pending))
        if not request.output.done():
            request.output.set_result(self._with_unique_text(text_reply))
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(data=st.data(), calls=CALLS, ticks=TICKS)
    def call(self, data: st.DataObject, calls: list[ToolRequest], ticks: int) -> None:
        self._call(data, calls, ticks)

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(
        data=st.data(),
        commands=st.lists(SHELL_CALLS, min_size=1, max_size=2),
        answer=st.sampled_from(["", *ANSWERS]),
        ticks=TICKS,
    )
    def run_commands(
        self, data: st.DataObject, commands: list[ToolRequest], answer: str, ticks: int
    ) -> None:
        """Answer the approval at once; drawn separately, they seldom meet."""
        self._call(data, commands, max(ticks, 10 if answer else 0))
        pending = [approval for approval in self.home.approvals() if approval.pending]
        if answer and pending:
            self.answer_to(data.draw(st.sampled_from(pending)), answer, None)
            self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(data=st.data(), background=st.booleans(), number=st.integers(1, 2), ticks=TICKS)
    def delegate(self, data: st.DataObject, background: bool, number: int, ticks: int) -> None:
        tasks = [{"task": f"task {self.unique_text()}"} for _ in range(number)]
        arguments = json.dumps({"tasks": tasks, "background": background})
        self._call(data, [ToolRequest("delegate", arguments)], ticks)

    def _call(self, data: st.DataObject, calls: list[ToolRequest], ticks: int) -> None:
        request = data.draw(st.sampled_from(self.home.current_run.model.pending))
        if request.tools and not request.output.done():
            request.output.set_result(calls)
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(tool.waiting for tool in self.home.held_tools.values()))
    @rule(data=st.data(), ticks=TICKS)
    def let_tool_finish(self, data: st.DataObject, ticks: int) -> None:
        held = [event for tool in self.home.held_tools.values() for event in tool.waiting]
        data.draw(st.sampled_from(held)).set()
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.current_run.model.pending)
    @rule(
        data=st.data(),
        action=st.sampled_from(["add", "add", "list", "pause", "resume", "remove"]),
        number=st.integers(1, 3),
        ticks=TICKS,
    )
    def schedule(self, data: st.DataObject, action: str, number: int, ticks: int) -> None:
        arguments = {"action": action, "id": number}
        if action == "add":
            arguments = {
                "action": action,
                "when": "every 10 minutes",
                "task": f"task {self.unique_text()}",
            }
        self._call(data, [ToolRequest(SCHEDULE_TOOL, json.dumps(arguments))], ticks)
