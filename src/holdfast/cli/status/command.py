"""`holdfast status`: reads the status socket and prints problems first, then what runs, then the details.

A health check pays for these imports: no asyncio, no http, no settings.
"""

import sys
import time
from collections.abc import Iterator, Sequence

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import (
    format_count,
    format_duration,
    format_size,
    format_time,
    json_option,
    sanitize,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    AccountStatus,
    BackupStatus,
    GatewaySnapshot,
    HourStats,
    MachineStatus,
    Problem,
    ProblemLevel,
    StatusReport,
    StoreStatus,
    TurnStatus,
)
from holdfast.core.turns.stop import StopKind, StopRow
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths


# MERGED holdfast.cli.status.account_told: How an account of a platform stands, in a line of words.
def account_text(platform: AccountStatus, *, now: float) -> str:
    """Its state, its last proof, why it is not connected, and when it is tried next."""
    parts = [_account_state(platform, now)]
    if platform.last_ok_at is not None and platform.state is not AccountState.PAUSED:
        parts.append(f"answered {_positive_duration(now - platform.last_ok_at)} ago")
    if platform.next_attempt_at is not None:
        parts.append(f"tried again in {_positive_duration(platform.next_attempt_at - now)}")
    text = ", ".join(parts)
    return f"{text}: {platform.error}" if platform.error else text


def _account_state(platform: AccountStatus, now: float) -> str:
    if platform.connected(now):
        return "connected"
    match platform.state:
        case AccountState.CONNECTED:
            if platform.error:
                return "not connected"
            return "not proven yet" if platform.last_ok_at is None else "silent"
        case AccountState.NEW:
            return "not tried yet"
        case AccountState.BLOCKED:
            return "refused for good"
    return str(platform.state)


def _positive_duration(seconds: float) -> str:
    return format_duration(max(0.0, seconds))


# MERGED holdfast.cli.status.status_rows: The rows of a status: one name and one line for each thing that an operator asks about.
_BACKLOG_TEXTS = {
    "until_acked": "it keeps messages for us",
    "history_since": "its history is read",
    "none": "nothing is kept while we are away",
}


StatusRow = tuple[str, str]  # a name, "" for one that goes on with the last, and harmless text


def status_rows(document: StatusReport, *, now: float) -> Iterator[StatusRow]:
    snapshot = document.snapshot
    yield from _row("home", document.home)
    yield from _row("address", snapshot.address)
    yield from _row("supervisor", snapshot.supervisor)
    yield from _row("model", _model(snapshot.model))
    yield from _row("turns", _turns(snapshot, now))
    yield from _row("pace", _last_hour(snapshot.last_hour))
    yield from _row("latency", _latency(snapshot.last_hour))
    yield from _row("tokens", _tokens(snapshot.last_hour))
    yield from _row("outbox", _outbox(snapshot, now))
    if snapshot.next_job is not None:
        due = format_duration(max(0.0, snapshot.next_job - now))
        yield from _row("jobs", f"the next is due in {due}")
    for index, platform in enumerate(snapshot.platforms):
        yield from _row("platforms" if index == 0 else "", platform_text(platform, now))
    for index, home in enumerate(snapshot.home_channels):
        address = home.address
        told = f"{address.platform}:{address.account} in chat {address.chat_id}"
        yield from _row("told in" if index == 0 else "", told)
    yield from _row("agents", _agents(snapshot))
    yield from _row("commands", _commands(snapshot))
    yield from _row("messages", _message_counts(snapshot))
    yield from _row("loop", _loop(document))
    yield from _row("store", _store(snapshot.store, document.machine))
    if snapshot.turns:
        yield from _row("backup", _backup(snapshot.last_backup, now))
    yield from _row("machine", _machine(document.machine))


def _row(name: str, value: str) -> Iterator[StatusRow]:
    if value:
        yield name, sanitize(value)


def _model(model: dict[str, str]) -> str:
    if not model:
        return ""
    provider = model.get("provider", "")
    name = model.get("name") or provider
    return name if name == provider else f"{name} ({provider})"


def _turns(snapshot: GatewaySnapshot, now: float) -> str:
    if not snapshot.turns:
        return ""
    told = [f"{n} {state}" for state, n in snapshot.turns.items() if n and state != "idle"]
    told += [f"{n} {kind} children" for kind, n in snapshot.subagents.items() if n]
    told += [f"{snapshot.runs} of them for jobs"] if snapshot.runs else []
    if snapshot.queued:
        oldest = (
            "" if snapshot.queued_since is None else f" for {_elapsed(snapshot.queued_since, now)}"
        )
        told.append(f"{snapshot.queued} queued{oldest}")
    return ", ".join(told) or "none"


def _last_hour(pace: HourStats) -> str:
    if not any(pace.turns):
        return ""
    failed = f", {pace.failed} failed" if pace.failed else ""
    minute = pace.turns[-2] if len(pace.turns) > 1 else 0
    turns = "1 turn" if sum(pace.turns) == 1 else f"{sum(pace.turns)} turns"
    return f"{turns} in the last hour{failed}; {minute} in the last whole minute"


def _latency(pace: HourStats) -> str:
    told = [
        f"{what} {format_duration(mean)} (worst {format_duration(worst)})"
        for what, mean, worst in (
            ("first word", pace.first_token_mean, pace.first_token_worst),
            ("answer", pace.duration_mean, pace.duration_worst),
        )
        if mean is not None
    ]
    return ", ".join(told)


def _tokens(pace: HourStats) -> str:
    if not (pace.input_tokens or pace.output_tokens):
        return ""
    cached = f" ({pace.cached_tokens / max(1, pace.input_tokens):.0%} cached)"
    cost = "" if pace.cost is None else f", cost {pace.cost:.2f}"
    return f"{format_count(pace.input_tokens)} in{cached}, {format_count(pace.output_tokens)} out{cost}"


def _outbox(snapshot: GatewaySnapshot, now: float) -> str:
    if snapshot.outbox_since is None:
        return "empty" if snapshot.turns else ""
    return f"{snapshot.outbox} owed, the first for {_elapsed(snapshot.outbox_since, now)}"


def platform_text(platform: AccountStatus, now: float) -> str:
    name = f"{platform.name}:{platform.account}"
    if platform.built_in and platform.connected(now):
        return f"{name} here"
    backlog = _BACKLOG_TEXTS.get(platform.backlog, platform.backlog)
    return f"{name} {account_text(platform, now=now)}; {backlog}"


def _agents(snapshot: GatewaySnapshot) -> str:
    agents = snapshot.agents
    if not agents.max_agents:
        return ""
    return (
        f"{agents.cached} of {agents.max_agents} kept, {agents.mid_turn} mid-turn, "
        f"{format_size(agents.bytes)}; {agents.hits} found, {agents.misses} built"
    )


def _commands(snapshot: GatewaySnapshot) -> str:
    confined = {
        True: "confined",
        False: f"NOT confined: {snapshot.why_unsandboxed or 'the sandbox is off'}",
        None: "not tried yet",
    }
    runners = "1 runner" if snapshot.runners == 1 else f"{snapshot.runners} runners"
    return f"{runners}, {confined[snapshot.sandboxed]}" if snapshot.turns else ""


def _message_counts(snapshot: GatewaySnapshot) -> str:
    ledger = dict(snapshot.inbox_counts)
    accepted = ledger.pop("accepted", 0)
    ends = ", ".join(f"{n} {state}" for state, n in ledger.items() if n)
    return f"{accepted} accepted: {ends}" if ends else ""


def _loop(document: StatusReport) -> str:
    loop = document.loop
    if loop is None:
        return ""
    return (
        f"turned {format_duration(loop.age)} ago; at worst {loop.worst_minute:.2f} s late in the last "
        f"minute, {loop.worst:.2f} s ever"
    )


def _store(store: StoreStatus, machine: MachineStatus) -> str:
    if not store.schema:
        return ""
    told = f"{format_size(machine.database)}, log {format_size(machine.wal)}, schema {store.schema}"
    if store.committed_ago is None:
        return f"{told}; nothing was written yet"
    return (
        f"{told}; last commit {format_duration(store.committed_ago)} ago, in "
        f"{store.commit_seconds * 1000:.0f} ms (slowest {store.slowest * 1000:.0f} ms)"
    )


def _backup(backup: BackupStatus, now: float) -> str:
    if backup.made_at is None:
        return "none yet" if backup.next_at is not None else "none, and none is made"
    return (
        f"{format_size(backup.bytes)}, verified {_elapsed(backup.made_at, now)} ago ({backup.name})"
    )


def _machine(machine: MachineStatus) -> str:
    told = []
    if machine.disk_free is not None and machine.disk_size:
        share = 100 * machine.disk_free / machine.disk_size
        told.append(f"{format_size(machine.disk_free)} of disk free ({share:.0f} %)")
    if machine.memory is not None:
        told.append(f"{format_size(machine.memory)} of memory used")
    if machine.files is not None:
        told.append(f"{machine.files} files open")
    return ", ".join(told)


def _elapsed(at: float, now: float) -> str:
    return format_duration(max(0.0, now - at))


# MERGED holdfast.cli.status.status_shown: The status as people read it: what is wrong first, then what runs, then what it stands on.
_STATE_COLOURS = {"running": "green", "hanging": "red"}
_NAME_WIDTH = 10  # columns of a row's name
_MAX_TURNS = 20  # turns; `--json` has more of them
_ID_LENGTH = 15  # letters of a session's id, which name it as well as all of them


def format_status(document: StatusReport, *, now: float) -> str:
    return "\n".join(
        [
            _headline_text(document),
            *(line for problem in document.problems for line in _problem_lines(problem)),
            *(click.style(line, bold=True) for line in transition_lines(document.snapshot, now)),
            *(_format_row(name, value) for name, value in status_rows(document, now=now)),
            *_turn_lines(document.snapshot, now),
            *_restart_lines(document.snapshot.restarts),
        ]
    )


def _headline_text(document: StatusReport) -> str:
    state = click.style(document.state, fg=_STATE_COLOURS.get(document.state, "yellow"), bold=True)
    seen = (
        f", seen {format_duration(document.snapshot_age)} ago" if document.snapshot_age > 1 else ""
    )
    up = format_duration(document.uptime)
    return f"holdfast {document.version} is {state}{seen} (process {document.pid}, up {up})"


def _problem_lines(problem: Problem) -> Iterator[str]:
    mark, colour = ("✗", "red") if problem.level is ProblemLevel.PROBLEM else ("!", "yellow")
    yield click.style(f"{mark} {sanitize(problem.what)}", fg=colour)
    if problem.remedy:
        yield f"  {sanitize(problem.remedy)}"


def _format_row(name: str, value: str) -> str:
    return f"  {click.style(name.ljust(_NAME_WIDTH), dim=True)}  {value}"


def transition_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    """How far a start or a stop has come, and whose word it was."""
    if snapshot.phase:
        for_ = format_duration(max(0.0, now - snapshot.phase_since))
        yield f"  {sanitize(snapshot.phase)} for {for_}"
    if snapshot.order is not None:
        yield f"  {_requested_by(snapshot.order.kind, snapshot.order.by)} {format_time(snapshot.order.at)}"
    if snapshot.pending_restart is not None:
        asked = _requested_by(snapshot.pending_restart.kind, snapshot.pending_restart.by)
        yield f"  {asked} {format_time(snapshot.pending_restart.at)}; it waits until nothing runs"


def _requested_by(kind: str, by: str) -> str:
    return f"{kind}, asked for by {by} at"


def _turn_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    if not snapshot.open_turns:
        return
    listed = snapshot.open_turns[:_MAX_TURNS]
    yield ""
    yield from _dim_header(format_turn_table(listed, now))
    if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
        yield f"  … and {more} more"


def format_turn_table(turns: Sequence[TurnStatus], now: float) -> list[str]:
    """A line of headers, and one for each turn."""
    headers = ("SESSION", "TURN", "AGE", "STEP", "TOOL", "WAITING", "WHERE")
    return _align_columns(headers, [_turn_row(turn, now) for turn in turns])


def _turn_row(turn: TurnStatus, now: float) -> tuple[str, ...]:
    return (
        turn.session[:_ID_LENGTH],
        turn.state,
        format_duration(max(0.0, now - turn.started_at)),
        str(turn.step),
        sanitize(", ".join(turn.tools)) or "-",
        str(turn.queued or "-"),
        sanitize(f"{turn.platform} {turn.chat}"),
    )


def _restart_lines(stops: Sequence[StopRow]) -> Iterator[str]:
    if stops:
        yield ""
        headers = ("ENDED", "WHY", "BY", "PARKED", "CUT", "BACK AFTER")
        yield from _dim_header(_align_columns(headers, [_stop_row(stop) for stop in stops]))


def _stop_row(stop: StopRow) -> tuple[str, ...]:
    began = stop.stopped_at or stop.order.at
    # When a killed process died nobody wrote down: only when its successor found out.
    if stop.ready_at is None or stop.order.kind is StopKind.CRASH:
        back = "-"
    else:
        back = format_duration(max(0.0, stop.ready_at - began))
    return (
        format_time(began),
        stop.order.kind,
        stop.order.by,
        str(stop.parked or "-"),
        str(stop.interrupted or "-"),
        back,
    )


def _align_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]
    lines = []
    for row in [headers, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _dim_header(lines: Sequence[str]) -> Iterator[str]:
    yield click.style(lines[0], dim=True)
    yield from lines[1:]


# MERGED holdfast.cli.status.status_looked: One look at a gateway: what it says of itself, or what is known of one that says nothing.
def render_status(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """What is to be said, and the exit code for it."""
    try:
        raw = read_status_report(paths)
    except GatewayDown as down:
        return describe_down(paths, down, as_json=as_json, indent=indent), exit_codes.GATEWAY_DOWN
    document = parse_status(raw)
    text = msgspec.json.format(raw, indent=indent or -1).decode() if as_json else None
    return text or format_status(document, now=time.time()), status_exit_code(document)


def describe_down(
    paths: Paths, down: GatewayDown, *, as_json: bool = False, indent: int = 0
) -> str:
    from holdfast.cli.status.down import format_down  # noqa: PLC0415 - may read the store

    return format_down(paths, down, as_json=as_json, indent=indent)


def parse_status(raw: bytes) -> StatusReport:
    try:
        return msgspec.json.decode(raw, type=StatusReport)
    except msgspec.MsgspecError as error:
        raise HoldfastError(
            f"The gateway answers in a form that this program does not know ({error}); it is of "
            "another version. Restart it, or ask with its own program."
        ) from None


def status_exit_code(document: StatusReport) -> int:
    """Not for one that wants attention: for one that does not do its work."""
    well = not any(problem.level is ProblemLevel.PROBLEM for problem in document.problems)
    return exit_codes.OK if well else exit_codes.FAILED


# MERGED holdfast.cli.status.status: `holdfast status`: how the running gateway is, from its own mouth.
_REFRESH_SECONDS = 1.0  # seconds between two looks of --watch
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


@click.command("status")
@home_option
@json_option
@click.option("-w", "--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing; the exit code tells.")
def command(as_json: bool, watch: bool, quiet: bool) -> None:
    """Ask the running gateway how it is.

    It is asked over a socket that answers even while the gateway starts, drains or hangs. What
    is wrong comes first. Exits with 0 when one is there and well, 1 when it hangs or cannot do
    its work, 3 when none is running.

    \b
    Examples:
      holdfast status --watch
      holdfast status --json
      holdfast status --quiet || echo "it is not well"
    """
    paths = Paths(chosen_home())
    if watch and not quiet:
        _watch(paths, as_json=as_json)
        return
    text, code = render_status(paths, as_json=as_json, indent=2)
    if not quiet:
        click.echo(text, err=code == exit_codes.GATEWAY_DOWN and not as_json)
    sys.exit(code)


def _watch(paths: Paths, *, as_json: bool) -> None:
    """The same again every second; a gateway that goes away is waited for."""
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not as_json else ""
    try:
        while True:
            text, _ = render_status(paths, as_json=as_json)
            click.echo(clear + text)
            time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
