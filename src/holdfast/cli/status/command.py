"""`holdfast status`: reads the status socket; prints problems, then what runs, then the details.

A health check pays for these imports: no asyncio, no http, no settings.
"""

import sys
import time
from collections.abc import Iterator, Sequence

import click
import msgspec

from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, sanitize
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
from holdfast.core.text.locale_format import format_count, format_duration, format_size, format_time
from holdfast.core.turns.stop import StopKind, StopRow
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths


def account_text(platform: AccountStatus, *, now: float) -> str:
    """Its state, its last contact, why it is not connected, and when the next attempt is."""
    parts = [_account_state(platform, now)]
    if platform.last_ok_at is not None and platform.state is not AccountState.PAUSED:
        parts.append(f"last contact {_positive_duration(now - platform.last_ok_at)} ago")
    if platform.next_attempt_at is not None:
        parts.append(f"next attempt in {_positive_duration(platform.next_attempt_at - now)}")
    text = ", ".join(parts)
    return f"{text}: {platform.error}" if platform.error else text


def _account_state(platform: AccountStatus, now: float) -> str:
    if platform.connected(now):
        return "connected"
    match platform.state:
        case AccountState.CONNECTED:
            if platform.error:
                return "not connected"
            return "not verified yet" if platform.last_ok_at is None else "not responding"
        case AccountState.NEW:
            return "not tried yet"
        case AccountState.BLOCKED:
            return "blocked: credentials refused"
    return str(platform.state)


def _positive_duration(seconds: float) -> str:
    return format_duration(max(0.0, seconds))


_BACKLOG_TEXTS = {
    "until_acked": "keeps unread messages",
    "history_since": "history is fetched",
    "none": "messages sent while offline are lost",
}


StatusRow = tuple[str, str]  # name ("": continues the row before) and sanitized text


def status_rows(document: StatusReport, *, now: float) -> Iterator[StatusRow]:
    snapshot = document.snapshot
    yield from _row("home", document.home)
    yield from _row("address", snapshot.address)
    yield from _row("supervisor", snapshot.supervisor)
    yield from _row("model", _model(snapshot.model))
    yield from _row("turns", _turns(snapshot, now))
    yield from _row("last hour", _last_hour(snapshot.last_hour))
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
        chat = f"{address.platform}:{address.account} in chat {address.chat_id}"
        yield from _row("home chats" if index == 0 else "", chat)
    yield from _row("agents", _agents(snapshot))
    yield from _row("sandbox", _sandbox(snapshot))
    yield from _row("messages", _message_counts(snapshot))
    yield from _row("event loop", _event_loop(document))
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
    parts = [f"{n} {state}" for state, n in snapshot.turns.items() if n and state != "idle"]
    parts += [f"{n} {kind} subagents" for kind, n in snapshot.subagents.items() if n]
    parts += [f"{snapshot.runs} of them for jobs"] if snapshot.runs else []
    if snapshot.queued:
        oldest = (
            "" if snapshot.queued_since is None else f" for {_elapsed(snapshot.queued_since, now)}"
        )
        parts.append(f"{snapshot.queued} queued{oldest}")
    return ", ".join(parts) or "none"


def _last_hour(hour: HourStats) -> str:
    if not any(hour.turns):
        return ""
    failed = f", {hour.failed} failed" if hour.failed else ""
    minute = hour.turns[-2] if len(hour.turns) > 1 else 0
    turns = "1 turn" if sum(hour.turns) == 1 else f"{sum(hour.turns)} turns"
    return f"{turns} in the last hour{failed}; {minute} in the last whole minute"


def _latency(hour: HourStats) -> str:
    parts = [
        f"{what} {format_duration(mean)} (worst {format_duration(worst)})"
        for what, mean, worst in (
            ("first token", hour.first_token_mean, hour.first_token_worst),
            ("answer", hour.duration_mean, hour.duration_worst),
        )
        if mean is not None
    ]
    return ", ".join(parts)


def _tokens(hour: HourStats) -> str:
    if not (hour.input_tokens or hour.output_tokens):
        return ""
    cached = f" ({hour.cached_tokens / max(1, hour.input_tokens):.0%} cached)"
    cost = "" if hour.cost is None else f", cost {hour.cost:.2f}"
    used = f"{format_count(hour.input_tokens)} in{cached}"
    return f"{used}, {format_count(hour.output_tokens)} out{cost}"


def _outbox(snapshot: GatewaySnapshot, now: float) -> str:
    if snapshot.outbox_since is None:
        return "empty" if snapshot.turns else ""
    return f"{snapshot.outbox} pending, oldest {_elapsed(snapshot.outbox_since, now)}"


def platform_text(platform: AccountStatus, now: float) -> str:
    name = f"{platform.name}:{platform.account}"
    if platform.built_in and platform.connected(now):
        return f"{name} built in"
    backlog = _BACKLOG_TEXTS.get(platform.backlog, platform.backlog)
    return f"{name} {account_text(platform, now=now)}; {backlog}"


def _agents(snapshot: GatewaySnapshot) -> str:
    agents = snapshot.agents
    if not agents.max_agents:
        return ""
    return (
        f"{agents.cached} of {agents.max_agents} cached, {agents.mid_turn} mid-turn, "
        f"{format_size(agents.bytes)}; {agents.hits} hits, {agents.misses} misses"
    )


def _sandbox(snapshot: GatewaySnapshot) -> str:
    confinement = {
        True: "confined",
        False: f"NOT confined: {snapshot.why_unsandboxed or 'the sandbox is off'}",
        None: "not tried yet",
    }
    runners = "1 runner" if snapshot.runners == 1 else f"{snapshot.runners} runners"
    return f"{runners}, {confinement[snapshot.sandboxed]}" if snapshot.turns else ""


def _message_counts(snapshot: GatewaySnapshot) -> str:
    counts = dict(snapshot.inbox_counts)
    accepted = counts.pop("accepted", 0)
    ends = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    return f"{accepted} accepted: {ends}" if ends else ""


def _event_loop(document: StatusReport) -> str:
    loop = document.loop
    if loop is None:
        return ""
    return (
        f"last turn {format_duration(loop.age)} ago; at worst {loop.worst_minute:.2f} s late in "
        f"the last minute, {loop.worst:.2f} s ever"
    )


def _store(store: StoreStatus, machine: MachineStatus) -> str:
    if not store.schema:
        return ""
    size = f"{format_size(machine.database)}, WAL {format_size(machine.wal)}, schema {store.schema}"
    if store.committed_ago is None:
        return f"{size}; nothing was written yet"
    return (
        f"{size}; last commit {format_duration(store.committed_ago)} ago, in "
        f"{store.commit_seconds * 1000:.0f} ms (slowest {store.slowest * 1000:.0f} ms)"
    )


def _backup(backup: BackupStatus, now: float) -> str:
    if backup.made_at is None:
        return "none yet" if backup.next_at is not None else "none, backups are off"
    return (
        f"{format_size(backup.bytes)}, verified {_elapsed(backup.made_at, now)} ago ({backup.name})"
    )


def _machine(machine: MachineStatus) -> str:
    parts = []
    if machine.disk_free is not None and machine.disk_size:
        share = 100 * machine.disk_free / machine.disk_size
        parts.append(f"{format_size(machine.disk_free)} of disk free ({share:.0f} %)")
    if machine.memory is not None:
        parts.append(f"{format_size(machine.memory)} of memory used")
    if machine.files is not None:
        parts.append(f"{machine.files} files open")
    return ", ".join(parts)


def _elapsed(at: float, now: float) -> str:
    return format_duration(max(0.0, now - at))


_STATE_COLOURS = {"running": "green", "hanging": "red"}
_NAME_WIDTH = 10  # columns of a row's name
_MAX_TURNS = 20  # `--json` has more
_ID_LENGTH = 15  # characters of a session id; enough to be unique


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
    age = (
        f", last update {format_duration(document.snapshot_age)} ago"
        if document.snapshot_age > 1
        else ""
    )
    up = format_duration(document.uptime)
    return f"holdfast {document.version} is {state}{age} (process {document.pid}, up {up})"


def _problem_lines(problem: Problem) -> Iterator[str]:
    mark, colour = ("✗", "red") if problem.level is ProblemLevel.PROBLEM else ("!", "yellow")
    yield click.style(f"{mark} {sanitize(problem.what)}", fg=colour)
    if problem.remedy:
        yield f"  {sanitize(problem.remedy)}"


def _format_row(name: str, value: str) -> str:
    return f"  {click.style(name.ljust(_NAME_WIDTH), dim=True)}  {value}"


def transition_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    """The phase of a start or stop, and who requested it."""
    if snapshot.phase:
        for_ = format_duration(max(0.0, now - snapshot.phase_since))
        yield f"  {sanitize(snapshot.phase)} for {for_}"
    if snapshot.order is not None:
        order = snapshot.order
        yield f"  {_requested_by(order.kind, order.by)} {format_time(order.at)}"
    if snapshot.pending_restart is not None:
        request = _requested_by(snapshot.pending_restart.kind, snapshot.pending_restart.by)
        yield f"  {request} {format_time(snapshot.pending_restart.at)}; scheduled for when idle"


def _requested_by(kind: str, by: str) -> str:
    return f"{kind}, requested by {by} at"


def _turn_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    if not snapshot.open_turns:
        return
    listed = snapshot.open_turns[:_MAX_TURNS]
    yield ""
    yield from _dim_header(format_turn_table(listed, now))
    if more := snapshot.more_turns + len(snapshot.open_turns) - len(listed):
        yield f"  … and {more} more"


def format_turn_table(turns: Sequence[TurnStatus], now: float) -> list[str]:
    """A header line, then one line for each turn."""
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
        headers = ("STOPPED", "REASON", "BY", "PARKED", "INTERRUPTED", "DOWNTIME")
        yield from _dim_header(_align_columns(headers, [_stop_row(stop) for stop in stops]))


def _stop_row(stop: StopRow) -> tuple[str, ...]:
    began = stop.stopped_at or stop.order.at
    # The time of a crash is not known, only when the next process found out.
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


def render_status(paths: Paths, *, as_json: bool, indent: int = 0) -> tuple[str, int]:
    """The text to print, and the exit code."""
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
            f"The gateway is of another version: its answer cannot be read ({error}). "
            "Restart it, or use the program of its version."
        ) from None


def status_exit_code(document: StatusReport) -> int:
    """FAILED only for a gateway that does not do its work; warnings are OK."""
    healthy = not any(problem.level is ProblemLevel.PROBLEM for problem in document.problems)
    return exit_codes.OK if healthy else exit_codes.FAILED


_REFRESH_SECONDS = 1.0  # of --watch
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


@click.command("status")
@home_option
@json_option
@click.option("-w", "--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; only set the exit code.")
def command(as_json: bool, watch: bool, quiet: bool) -> None:
    """Show the status of the running gateway.

    Uses a socket that answers even while the gateway starts, drains or hangs. Problems come
    first. Exits with 0 when the gateway is healthy, 1 when it hangs or cannot do its work, 3 when
    none is running.

    \b
    Examples:
      holdfast status --watch
      holdfast status --json
      holdfast status --quiet || echo "unhealthy"
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
    """Prints every second; keeps waiting for a gateway that goes away."""
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not as_json else ""
    try:
        while True:
            text, _ = render_status(paths, as_json=as_json)
            click.echo(clear + text)
            time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
