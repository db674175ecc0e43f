"""`holdfast top`: what the screen shows, how keys change it, and that the terminal is restored."""

import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from tests.support.command_line import Cli, Terminal

from holdfast.cli.common.rendering import render
from holdfast.cli.top.frame import (
    BACK,
    DOWN,
    HELP,
    LAST,
    OPEN,
    PAUSE,
    UP,
    FrameRenderer,
    Line,
    StatusSample,
    TopPage,
    TopView,
    apply_key,
    render_plain,
)
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    AccountStatus,
    GatewaySnapshot,
    HourStats,
    Problem,
    ProblemLevel,
    StatusReport,
    TurnStatus,
)
from holdfast.server.status.thread import StatusThread
from holdfast.system import exit_codes
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths

NOW = 1_000_000.0
STANDARD_SIZE, WIDE_SIZE = os.terminal_size((80, 24)), os.terminal_size((200, 50))


def turn(number: int, **more: Any) -> TurnStatus:
    defaults = {"platform": "simulated", "chat": f"chat{number}", "started_at": NOW - 12, "step": 3}
    return TurnStatus(
        session=f"s_{number}", turn=f"t_{number}", state="running", **(defaults | more)
    )


def turns(*numbers: int) -> tuple[TurnStatus, ...]:
    return tuple(turn(number) for number in numbers)


def sample(*, problems: Sequence[Problem] = (), **snapshot: Any) -> StatusSample:
    document = StatusReport(
        state="running",
        pid=7,
        version="1.2",
        home="/h",
        started_at=NOW - 7200,
        uptime=7200,
        problems=tuple(problems),
        snapshot=GatewaySnapshot(**{"state": "running", "turns": {"running": 1}, **snapshot}),
    )
    return StatusSample(at=NOW, document=document)


def text(line: Line) -> str:
    return "".join(segment.text for segment in line)


def lines(
    what: StatusSample, view: TopView | None = None, size: os.terminal_size = STANDARD_SIZE
) -> list[Line]:
    return FrameRenderer(size).lines(what, view or TopView())


def rendered(
    what: StatusSample, view: TopView | None = None, size: os.terminal_size = STANDARD_SIZE
) -> str:
    return "\n".join(text(line).rstrip() for line in lines(what, view, size))


FULL_SAMPLE = sample(
    problems=[Problem(level=ProblemLevel.PROBLEM, code="x", what="It is on fire. " * 20)] * 4,
    open_turns=tuple(turn(n, chat="家族" * 40) for n in range(100)),
    more_turns=900,
    phase="draining",
    last_hour=HourStats(
        turns=tuple(range(60)),
        first_token_mean=1.0,
        duration_mean=2.0,
        input_tokens=10**9,
        cost=1.0,
    ),
    platforms=tuple(
        AccountStatus(name="p" * 30, account=f"a{n}", backlog="none") for n in range(40)
    ),
    inbox_counts={"accepted": 5, "answered": 5},
)


@pytest.mark.parametrize(
    ("columns", "height"),
    [*itertools.product((80, 139, 140, 200), (24, 50)), (20, 5), (1, 1), (300, 3), (40, 200)],
)
@pytest.mark.parametrize("page", TopPage)
def test_a_screen_has_the_lines_of_its_terminal_and_none_is_longer(
    columns: int, height: int, page: TopPage
) -> None:
    size = os.terminal_size((columns, height))
    for what in (
        FULL_SAMPLE,
        sample(),
        StatusSample(at=NOW, down_text="No gateway is running. " * 30),
    ):
        drawn = lines(what, TopView(page=page, index=99), size)
        assert len(drawn) == height
        assert max(cell_len(text(each)) for each in drawn) <= columns


def test_an_ordinary_terminal_shows_everything_an_operator_needs() -> None:
    screen = rendered(
        sample(
            open_turns=(turn(1, tools=("terminal",), queued=2),),
            last_hour=HourStats(
                turns=(*[0] * 58, 1, 4), first_token_mean=0.5, duration_mean=2.0, input_tokens=10
            ),
            inbox_counts={"accepted": 9, "answered": 7, "running": 2},
            platforms=(AccountStatus(name="api", account="a", backlog="none", built_in=True),),
        )
    )
    head, *rest = screen.splitlines()
    assert head.startswith("holdfast 1.2 is running (process 7, up 2 h)")
    for expected in (
        "turns       1 running",
        "5 turns in the last hour",
        "first token 0.5 s",
        "10 in (0% cached)",
        "9 accepted: 7 answered, 2 running",
        "outbox      empty",
        "● api:a built in",
        "1 of 1",
    ):
        assert expected in screen
    row = next(row for row in rest if "s_1" in row)
    assert " ".join(row.split()) == "s_1 running 12.0 s 3 terminal 2 simulated chat1"


def test_a_wide_terminal_shows_more_beside_and_a_low_one_keeps_room_for_turns() -> None:
    assert "address     http://x" not in rendered(sample(address="http://x"))
    assert "address     http://x" in rendered(sample(address="http://x"), size=WIDE_SIZE)
    assert "… and 35 more" in rendered(FULL_SAMPLE, size=os.terminal_size((80, 40)))
    low = rendered(FULL_SAMPLE, size=os.terminal_size((80, 12))).splitlines()
    assert sum("s_" in row for row in low) >= 4


def test_the_chart_has_a_bar_for_each_minute() -> None:
    screen = rendered(sample(last_hour=HourStats(turns=(*[0] * 57, 1, 4, 8))))
    assert "·" * 57 + "▂▅█ 8" in screen


def test_a_disconnected_account_comes_first() -> None:
    here = AccountStatus(name="api", account="a", backlog="none", built_in=True)
    away = AccountStatus(
        name="b", account="x", backlog="none", state=AccountState.RETRYING, error="nobody there"
    )
    screen = rendered(sample(platforms=(here, away)))
    assert screen.index("nobody there") < screen.index("api:a built in")


def test_terminal_control_sequences_in_data_are_removed() -> None:
    bad = "\x1b[2J\x07"
    what = sample(
        problems=[Problem(level=ProblemLevel.WARNING, code="x", what=bad)],
        open_turns=(turn(1, chat=bad, tools=(bad,)),),
        platforms=(AccountStatus(name=bad, account=bad, backlog=bad, error=bad),),
        phase=bad,
    )
    for screen in (
        rendered(what),
        rendered(what, TopView(page=TopPage.DETAILS)),
        render(render_plain(what)),
    ):
        assert "\x1b" not in screen and "\x07" not in screen


def test_the_selected_turn_stays_selected_while_others_come_and_go() -> None:
    view = TopView()
    for key in (DOWN, DOWN, DOWN, UP):
        view = apply_key(view, key, turns(1, 2, 3, 4))
    assert view.turn == "t_3"
    assert view.selected_index(turns(0, 3, 9)) == 1
    assert view.selected_index(turns(7, 8, 9, 10)) == 2, "it has ended: whichever stands there now"
    assert view.selected_index(()) == 0
    assert apply_key(view, LAST, turns(1, 2)).turn == "t_2"
    assert apply_key(view, UP, ()).turn == ""


def test_a_list_longer_than_the_screen_scrolls_to_the_chosen_turn() -> None:
    what = sample(open_turns=turns(*range(100)), more_turns=5)
    view = apply_key(TopView(), LAST, what.turns)
    screen = rendered(what, view)
    assert "chat99" in screen and "SESSION" in screen and "chat1\n" not in screen
    assert "100 of 105" in screen and "… and 5 more" in screen
    [chosen] = [
        text(each)
        for each in lines(what, view)
        if any(segment.style and segment.style.reverse for segment in each)
    ]
    assert "s_99" in chosen and cell_len(chosen) == STANDARD_SIZE.columns


def test_pages_open_and_close_and_pausing_is_shown() -> None:
    what = sample(open_turns=(turn(1, tools=("terminal", "fetch")),))
    view = apply_key(TopView(), OPEN, what.turns)
    screen = rendered(what, view)
    assert "holdfast sessions follow s_1" in screen and "terminal, fetch" in screen
    assert apply_key(view, BACK, what.turns).page is TopPage.TURNS
    assert apply_key(view, OPEN, what.turns).page is TopPage.TURNS
    helped = apply_key(view, HELP, what.turns)
    assert "quit" in rendered(what, helped) and apply_key(helped, HELP, ()).page is TopPage.TURNS
    assert "PAUSED" in rendered(what, apply_key(view, PAUSE, what.turns))
    assert apply_key(TopView(), OPEN, ()).page is TopPage.TURNS
    assert "holdfast sessions follow s_0" in rendered(FULL_SAMPLE, TopView(page=TopPage.DETAILS)), (
        "all of it fits"
    )


def test_text_that_does_not_fit_ends_with_an_ellipsis() -> None:
    what = sample(open_turns=(turn(1, chat="家族会議" * 20),))
    [row] = [each for each in rendered(what).splitlines() if "s_1" in each]
    assert row.endswith("…") and cell_len(row) <= STANDARD_SIZE.columns


def test_the_selected_turn_is_marked_also_without_colours() -> None:
    assert "\x1b[7m" in FrameRenderer(STANDARD_SIZE).ansi(sample(open_turns=turns(1)), TopView())


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir(mode=0o700)
    return Paths(tmp_path / "home")


def test_without_a_terminal_top_prints_once_and_exits_like_status(cli: Cli, paths: Paths) -> None:
    down = cli("top")
    assert down.returncode == exit_codes.GATEWAY_DOWN and "No gateway is running" in down.stderr
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(GatewaySnapshot(state="running", open_turns=turns(1)))
        run = cli("top", "--once")
        document = json.loads(cli("top", "--once", "--json").stdout)
    assert run.returncode == exit_codes.OK and "chat1" in run.stdout
    assert "\x1b" not in run.stdout
    assert msgspec.convert(document, StatusReport).snapshot.open_turns == turns(1)


def test_at_a_terminal_top_waits_follows_obeys_keys_and_restores_the_screen(
    paths: Paths, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal("top", "--every", "0.2")
    terminal.wait_for_screen("The gateway does not answer")
    terminal.wait_for_screen("Waiting for the gateway.")
    with StatusThread(paths, clock=SystemClock()) as status:
        status.publish(
            GatewaySnapshot(state="running", turns={"running": 2}, open_turns=turns(1, 2))
        )
        terminal.wait_for_screen("is running")
        terminal.wait_for_screen("1 of 2")
        terminal.type_keys("\x1b[B")
        terminal.wait_for_screen("2 of 2")
        terminal.type_keys("\r")
        terminal.wait_for_screen("holdfast sessions follow s_2")
        terminal.type_keys("p")
        terminal.wait_for_screen("PAUSED\n")
        terminal.resize(60, 20)
        terminal.wait_for_screen("? help    2 of 2")  # at both ends of the new size
        terminal.type_keys("p")
        terminal.wait_for_screen("up ")
    terminal.wait_for_screen("The gateway does not answer")
    terminal.type_keys("q")
    assert terminal.wait_for_exit() == 0
    assert "\x1b[?1049h" in terminal.raw and "\x1b[?1049l" in terminal.raw
    assert terminal.raw.rfind("\x1b[?25h") > terminal.raw.rfind("\x1b[?25l"), "the cursor is back"
    assert terminal.raw.count("\x1b[2J") <= 2, "only for a new size, or it would flicker"


def test_without_colours_there_are_none_and_a_signal_leaves_the_terminal_as_it_was(
    paths: Paths, open_terminal: Callable[..., Terminal]
) -> None:
    terminal = open_terminal("top", NO_COLOR="1")
    terminal.wait_for_screen("The gateway does not answer")
    terminal.process.terminate()
    assert terminal.wait_for_exit() == 0
    assert terminal.raw.rfind("\x1b[?1049l") > terminal.raw.rfind("\x1b[?1049h")
    codes = {
        code for sgr in re.findall(r"\x1b\[([0-9;]*)m", terminal.raw) for code in sgr.split(";")
    }
    assert codes.isdisjoint(str(number) for number in (*range(30, 49), *range(90, 108)))
