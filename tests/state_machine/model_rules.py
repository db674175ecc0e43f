"""What the model says and the tools do as rules."""

import json

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.approval_rules import ANSWERS, Answering
from tests.state_machine.driver import LONGEST, PLACES, TICKS
from tests.state_machine.model import Line, Mishap, Spoken, Wanted
from tests.state_machine.tools import COMMANDS_RUN, SHELL

from holdfast.core.jobs.job import SCHEDULE_TOOL
from holdfast.core.turns.tool import ReplayClass

RUNS = st.sampled_from(COMMANDS_RUN).map(lambda word: Wanted(SHELL, json.dumps({"command": word})))
LEVERS = st.sampled_from([*ReplayClass, "no such tool"]).map(Wanted)
TOOLS = st.lists(st.one_of(LEVERS, RUNS), min_size=1, max_size=3)
LONG = " ".join(["and on"] * (LONGEST // 6))
TEXTS = st.sampled_from(["answer to {}", "answer to {}", f"answer to {{}} {LONG}", "", "[SILENT]"])
MISHAPS = st.sampled_from([Mishap.NONE, Mishap.NONE, Mishap.NONE, *Mishap])
QUICKLY = st.builds(Spoken, text=TEXTS, pause=st.just(0.0), mishap=MISHAPS)
SLOWLY = st.builds(
    Spoken, text=TEXTS, pause=st.sampled_from([0.3, 2.0]), mishap=st.sampled_from(Mishap)
)
LINES = st.one_of(QUICKLY, SLOWLY, TOOLS)


class Thinking(Answering):
    """Owns nothing: what waits for an answer is the voice's."""

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(data=st.data(), spoken=QUICKLY, ticks=TICKS)
    def answer(self, data: st.DataObject, spoken: Spoken, ticks: int) -> None:
        self._say(data, spoken, ticks)

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(data=st.data(), spoken=SLOWLY, seconds=st.sampled_from([0.7, 3, 10]), ticks=TICKS)
    def answer_slowly(
        self, data: st.DataObject, spoken: Spoken, seconds: float, ticks: int
    ) -> None:
        """So slowly that people see the reply grow."""
        self._say(data, spoken, ticks)
        self.home.loop.wait(seconds)

    @precondition(lambda self: self.home.ready)
    @rule(place=PLACES, line=LINES, seconds=st.sampled_from([0, 0.7, 3, 10]), ticks=TICKS)
    def exchange(self, place: tuple[str, str], line: Line, seconds: float, ticks: int) -> None:
        """A message and what the model makes of it, for random answers seldom meet their asks."""
        self.write(*place, self.text(), 50)
        asks = self.home.life.voice.asks
        if asks and not asks[-1].line.done() and (asks[-1].tools or isinstance(line, Spoken)):
            asks[-1].line.set_result(self._named(line))
        self.home.loop.wait(seconds)
        self.home.loop.tick(ticks)

    def _named(self, line: Line) -> Line:
        """An answer that is given once."""
        return (
            line._replace(text=line.text.format(self.text())) if isinstance(line, Spoken) else line
        )

    def _say(self, data: st.DataObject, spoken: Spoken, ticks: int) -> None:
        ask = data.draw(st.sampled_from(self.home.life.voice.asks))
        if not ask.line.done():
            ask.line.set_result(self._named(spoken))
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(data=st.data(), calls=TOOLS, ticks=TICKS)
    def call(self, data: st.DataObject, calls: list[Wanted], ticks: int) -> None:
        self._call(data, calls, ticks)

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(
        data=st.data(),
        commands=st.lists(RUNS, min_size=1, max_size=2),
        answer=st.sampled_from(["", *ANSWERS]),
        ticks=TICKS,
    )
    def run_commands(
        self, data: st.DataObject, commands: list[Wanted], answer: str, ticks: int
    ) -> None:
        """What is asked is answered at once, for random answers seldom meet their questions."""
        self._call(data, commands, max(ticks, 10 if answer else 0))
        pending = [approval for approval in self.home.asked() if approval.pending]
        if answer and pending:
            self.answer_to(data.draw(st.sampled_from(pending)), answer, None)
            self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(data=st.data(), background=st.booleans(), number=st.integers(1, 2), ticks=TICKS)
    def delegate(self, data: st.DataObject, background: bool, number: int, ticks: int) -> None:
        tasks = [{"task": f"task {self.text()}"} for _ in range(number)]
        arguments = json.dumps({"tasks": tasks, "background": background})
        self._call(data, [Wanted("delegate", arguments)], ticks)

    def _call(self, data: st.DataObject, calls: list[Wanted], ticks: int) -> None:
        ask = data.draw(st.sampled_from(self.home.life.voice.asks))
        if ask.tools and not ask.line.done():
            ask.line.set_result(calls)
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(lever.held for lever in self.home.held_tools.values()))
    @rule(data=st.data(), ticks=TICKS)
    def let_go(self, data: st.DataObject, ticks: int) -> None:
        held = [event for lever in self.home.held_tools.values() for event in lever.held]
        data.draw(st.sampled_from(held)).set()
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life.voice.asks)
    @rule(
        data=st.data(),
        action=st.sampled_from(["add", "add", "list", "pause", "resume", "remove"]),
        number=st.integers(1, 3),
        ticks=TICKS,
    )
    def schedule(self, data: st.DataObject, action: str, number: int, ticks: int) -> None:
        asked = {"action": action, "id": number}
        if action == "add":
            asked = {"action": action, "when": "every 10 minutes", "task": f"task {self.text()}"}
        self._call(data, [Wanted(SCHEDULE_TOOL, json.dumps(asked))], ticks)
