"""The demo model: a client that needs no key and no network.

What it says next is derived from the conversation alone, so it continues after any crash.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.model import Completed, ModelEvent, ModelRequest, TextDelta
from holdfast.core.turns.turn import Usage
from holdfast.models import errors
from holdfast.models.retry import Sleep
from holdfast.models.target import ModelTarget


class DemoCall(msgspec.Struct, frozen=True):
    tool: str
    arguments: str


class DemoReply(msgspec.Struct, frozen=True):
    """What is said in one step, and the tools asked for with it."""

    text: str
    calls: tuple[DemoCall, ...] = ()


class DemoContext(msgspec.Struct, frozen=True):
    """The state of a scripted demo: what the user asked for, and the results since."""

    user_text: str
    results: tuple[ToolMessage, ...]
    tools: frozenset[str]


DemoScenario = Callable[[DemoContext], DemoReply]


def next_reply(request: ModelRequest) -> DemoReply:
    """The next line of the play that the last user message chose."""
    scene = _read_context(request)
    for pattern, needs, play in _SCENARIOS:
        if re.search(pattern, scene.user_text, re.IGNORECASE | re.DOTALL):
            missing = sorted(needs - scene.tools)
            return _missing_tools_reply(missing) if missing else play(scene)
    return DemoReply(_HELP if "terminal" in scene.tools else _HELP_WITHOUT_TERMINAL)


def _read_context(request: ModelRequest) -> DemoContext:
    """Everything since the last thing a user said; a note in between changes nothing."""
    results: list[ToolMessage] = []
    asked = ""
    for message in reversed(request.messages):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, UserMessage):
            asked = message.text.strip()
            break
    tools = frozenset(schema.name for schema in request.tools)
    return DemoContext(asked, tuple(reversed(results)), tools)


def _call(tool: str, **arguments: Any) -> DemoCall:
    return DemoCall(tool, msgspec.json.encode(arguments).decode())


def _missing_tools_reply(missing: Sequence[str]) -> DemoReply:
    names = ", ".join(f"`{name}`" for name in missing)
    return DemoReply(
        f"I am the demo model, and that part needs the tool {names}, which this session does "
        "not have. See `toolsets` under [agent] in holdfast.toml, and `holdfast doctor`: where no "
        "sandbox works, no session has a terminal, processes and files. Say `help` for what I can "
        "do."
    )


def _run(context: DemoContext) -> DemoReply:
    if context.results:
        return DemoReply(f"This is what came back:\n\n{_block(context.results[-1].text)}")
    command = re.sub(r"^\s*(please\s+)?run[\s:]+", "", context.user_text, flags=re.IGNORECASE)
    command = command.strip().strip("`")
    return DemoReply(f"I run `{command}` in the terminal.", (_call("terminal", command=command),))


def _edit(context: DemoContext) -> DemoReply:
    first = "Notes\n\n- kelp grips the rock\n"
    steps: tuple[Callable[[], DemoReply], ...] = (
        lambda: DemoReply(
            "First I write a file, notes.txt.",
            (_call("write", path="notes.txt", content=first),),
        ),
        lambda: DemoReply(
            "Now I change one line of it.",
            (_call("edit", path="notes.txt", old="kelp grips", new="a holdfast grips"),),
        ),
        lambda: DemoReply("And I read it back.", (_call("read", path="notes.txt"),)),
        lambda: DemoReply(f"notes.txt now reads:\n\n{_block(context.results[-1].text)}"),
    )
    return steps[min(len(context.results), 3)]()


_TICKING = "for i in $(seq 1 600); do echo tick $i; sleep 1; done"


def _background(context: DemoContext) -> DemoReply:
    if not context.results:
        return DemoReply(
            "I start a process in the background that ticks once a second.",
            (_call("process", action="start", command=_TICKING),),
        )
    started = context.results[0].text
    if len(context.results) == 1:
        return DemoReply("It runs; I look at it.", (_wait_for_output(started),))
    return DemoReply(
        "The process runs on after this reply, and across a crash of the gateway:"
        f"\n\n{_block(started)}\n\n"
        f"What it has said so far:\n\n{_block(context.results[-1].text)}\n\n"
        "`/stop` does not end it; `/new` does."
    )


def _wait_for_output(started: str) -> DemoCall:
    found = re.search(r"(\S+) (?:running|ended)\b", started)
    if found is None:
        return _call("process", action="list")
    # Long enough to see it tick: a look at once would mostly show nothing.
    return _call("process", action="wait", id=found[1], timeout=2)


_STEPS = 8


def _long(context: DemoContext) -> DemoReply:
    done = sum(result.outcome is ToolOutcome.OK for result in context.results)
    if done >= _STEPS:
        output = "\n".join(result.text.strip() for result in context.results)
        return DemoReply(f"All {_STEPS} steps are done:\n\n{_block(output)}")
    last = context.results[-1] if context.results else None
    if last is not None and last.outcome is ToolOutcome.ERROR:
        return DemoReply(f"Step {done + 1} failed, and I stop here:\n\n{_block(last.text)}")
    unsure = last is not None and last.outcome is not ToolOutcome.OK
    return _step(done + 1, unsure=unsure)


def _step(step: int, *, unsure: bool) -> DemoReply:
    """One step of the long job. Its log is how one sees, after a kill, that none ran twice."""
    line = f"step {step} of {_STEPS}"
    append = "tee" if step == 1 else "tee -a"
    command = f"sleep 2; echo {line} | {append} steps.log"
    text = f"Step {step} of {_STEPS}."
    if unsure:
        text = f"I do not know how step {step} ended: I look before I repeat it."
        command = f"grep -x '{line}' steps.log || {{ {command}; }}"
    elif step == 1:
        text = f"This takes {_STEPS} steps; pull the plug whenever you like. {text}"
    return DemoReply(text, (_call("terminal", command=command),))


def _block(text: str) -> str:
    return f"```\n{text.strip()[:2000] or '(nothing)'}\n```"


_PLAN = ("look at what is there", "change one thing", "look at it again")


def _plan(context: DemoContext) -> DemoReply:
    """Ticks off one item per step: to be seen without a terminal, and killed half-way, too."""
    done = len(context.results)
    if done > len(_PLAN):
        return DemoReply(f"The plan is done:\n\n{_block(context.results[-1].text)}")
    items = [
        {"text": text, "state": "done" if number < done else "doing" if number == done else "todo"}
        for number, text in enumerate(_PLAN)
    ]
    text = f"Item {done} is done." if done else "I make a plan of three items."
    return DemoReply(text, (_call("todo", items=items),))


_INTRODUCTION = """\
I am the demo model: a small script, no AI. I need no key, and I use the real tools, so that you \
can see the gateway work. Try one of these:

"""
_REAL_MODEL = """\

To talk to a real model, run `holdfast setup` in a terminal, or put this into holdfast.toml; it \
holds from the next message on:

```toml
[model]
provider = "openai"              # or "openrouter", "anthropic", "local"
api_key = "env:OPENAI_API_KEY"   # a reference, never the key itself
# base_url = "http://127.0.0.1:8080/v1"   # for provider = "local"
```

Or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY in the environment, or start a \
model server such as Ollama on this machine: it is found at the next start."""
_HELP_WITHOUT_TERMINAL = f"""{_INTRODUCTION}\
- `make a plan`: I write a list and tick off its items, one step after another
- `/help`: what the gateway itself understands; its commands need no model

This session has no terminal and no files. Where that is because no sandbox works on this machine, \
`holdfast doctor` says what to do.
{_REAL_MODEL}"""
_HELP = f"""{_INTRODUCTION}\
- `run uname -a`: I run that command in this session's terminal
- `edit a file`: I write, change and read notes.txt
- `start a background process`: something that keeps ticking after I answer
- `long job`: eight steps of two seconds; kill the gateway in the middle, start it again, and \
the job goes on where it was
{_REAL_MODEL}"""

_SCENARIOS: Sequence[tuple[str, frozenset[str], DemoScenario]] = (
    (r"^\s*(please\s+)?run[\s:]+\S", frozenset({"terminal"}), _run),
    (r"\bedit\b.*\bfile\b", frozenset({"read", "write", "edit"}), _edit),
    (r"\bbackground\b.*\bprocess\b", frozenset({"process"}), _background),
    (r"\bmake\b.*\bplan\b", frozenset({"todo"}), _plan),
    (r"\blong job\b|\bwork for a while\b", frozenset({"terminal"}), _long),
)


_SECONDS_PER_WORD = 0.01
_MAX_STREAM_SECONDS = 0.8  # seconds that the streaming of one reply may take


class DemoModel:
    """Replies from the transcript alone, so that it continues after any crash."""

    __slots__ = ("_released", "_sleep", "_target", "name")

    def __init__(self, target: ModelTarget, *, sleep: Sleep = asyncio.sleep) -> None:
        self._target = target
        self._sleep = sleep
        self._released = False
        self.name = target.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        line = next_reply(request)
        words = line.text.split(" ")
        pause = min(_SECONDS_PER_WORD, _MAX_STREAM_SECONDS / len(words))
        for index, word in enumerate(words):
            if self._released:
                raise errors.released_error(self._target)
            yield TextDelta(word if index == 0 else f" {word}")
            await self._sleep(pause)
        if self._released:
            raise errors.released_error(self._target)
        yield Completed(_message(line, request, self.name), _usage(line, request))

    def release(self) -> None:
        self._released = True


def _message(reply: DemoReply, request: ModelRequest, model: str) -> AssistantMessage:
    calls = tuple(
        ToolCall(
            # From the place in the conversation: unique there, and the same after a restart.
            id=CallId(f"call_demo_{len(request.messages)}_{index}"),
            name=call.tool,
            arguments=call.arguments,
        )
        for index, call in enumerate(reply.calls)
    )
    stop = StopReason.TOOL_CALLS if calls else StopReason.END
    return AssistantMessage(text=reply.text, calls=calls, model=model, stop=stop)


def _usage(reply: DemoReply, request: ModelRequest) -> Usage:
    """Four characters a token: there is no tokeniser, and the page should show a number."""
    read = len(request.system) + sum(len(m.text) for m in request.messages)
    return Usage(input_tokens=read // 4, output_tokens=len(reply.text) // 4)
