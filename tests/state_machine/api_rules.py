"""Rules: programs send messages over the API and watch them."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.chat_rules import COMMANDS
from tests.state_machine.driver import TICKS, Driver

from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.transcript import AssistantMessage, UserMessage


class ApiRules(Driver):
    """Owns nothing: the home records requests and watchers."""

    @precondition(lambda self: self.home.ready)
    @rule(
        name=st.sampled_from(["one", "two"]),
        text=st.sampled_from([None, None, None, *COMMANDS[:4]]),
        busy_mode=st.sampled_from([None, *BusyMode]),
        mergeable=st.booleans(),
        watched=st.booleans(),
        ticks=TICKS,
    )
    def ask(
        self,
        name: str,
        text: str | None,
        busy_mode: BusyMode | None,
        mergeable: bool,
        watched: bool,
        ticks: int,
    ) -> None:
        more = {"busy_mode": busy_mode, "mergeable": mergeable}
        self.send_api_message(name, text or self.unique_text(), watched, ticks, **more)

    @precondition(lambda self: self.home.ready)
    @rule(watched=st.booleans(), ticks=TICKS)
    def ask_statelessly(self, watched: bool, ticks: int) -> None:
        name, past = self.unique_text(), self.unique_text()
        self.send_api_message(
            name,
            self.unique_text(),
            watched,
            ticks,
            history=(UserMessage(text=past), AssistantMessage(text="indeed")),
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=False,
            instructions="Be brief.",
        )

    @precondition(lambda self: self.home.ready and self.home.requests)
    @rule(data=st.data(), ticks=TICKS)
    def ask_again(self, data: st.DataObject, ticks: int) -> None:
        """Send the same event once more."""
        self.home.send_request(data.draw(st.sampled_from(self.home.requests)).inbound)
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(r.task and not r.task.done() for r in self.home.requests))
    @rule(ticks=TICKS)
    def hang_up(self, ticks: int) -> None:
        for request in self.home.requests:
            if request.task is not None:
                request.task.cancel()
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready and self.home.acknowledged)
    @rule(data=st.data(), ticks=TICKS)
    def watch(self, data: st.DataObject, ticks: int) -> None:
        self.home.watch(data.draw(st.sampled_from(sorted(self.home.acknowledged))))
        self.home.loop.tick(ticks)

    @precondition(lambda self: any(not w.closed for w in self.home.watchers))
    @rule(data=st.data(), ticks=TICKS)
    def lose_watcher(self, data: st.DataObject, ticks: int) -> None:
        open_watchers = [watch for watch in self.home.watchers if not watch.closed]
        watch = data.draw(st.sampled_from(open_watchers))
        assert watch.task is not None
        watch.closed = True
        watch.task.cancel()
        self.home.loop.tick(ticks)
