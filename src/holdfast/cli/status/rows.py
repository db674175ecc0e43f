"""The texts of `holdfast status` and `holdfast top`: rows of names and values, without layout."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from holdfast.cli.common.language import phase_text, state_text
from holdfast.cli.common.output import sanitize
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    AccountStatus,
    BackupStatus,
    GatewaySnapshot,
    HourStats,
    MachineStatus,
    StatusReport,
    StoreStatus,
)
from holdfast.core.text.locale_format import (
    format_count,
    format_duration,
    format_money,
    format_number,
    format_percent,
    format_size,
    format_time,
)
from holdfast.core.text.translation import N_, _, _n
from holdfast.core.turns.stop import HomeChannel


def account_text(platform: AccountStatus, *, now: float) -> str:
    """Its state, its last contact, why it is not connected, and when the next attempt is."""
    parts = [_account_state(platform, now)]
    if platform.last_ok_at is not None and platform.state is not AccountState.PAUSED:
        ago = elapsed(platform.last_ok_at, now)
        parts.append(_("last contact {duration} ago").format(duration=ago))
    if platform.next_attempt_at is not None:
        left = elapsed(now, platform.next_attempt_at)
        parts.append(_("next attempt in {duration}").format(duration=left))
    text = ", ".join(parts)
    return f"{text}: {platform.error}" if platform.error else text


def _account_state(platform: AccountStatus, now: float) -> str:
    if platform.connected(now):
        return _("connected")
    match platform.state:
        case AccountState.CONNECTED:
            if platform.error:
                return _("not connected")
            return _("not verified yet") if platform.last_ok_at is None else _("not responding")
        case AccountState.NEW:
            return _("not tried yet")
        case AccountState.BLOCKED:
            return _("blocked: credentials refused")
        case AccountState.PAUSED:
            return _("paused")
        case AccountState.RETRYING:
            return _("retrying")
    return str(platform.state)


_BACKLOG_TEXTS = {
    "until_acked": N_("keeps unread messages"),
    "history_since": N_("missed messages are fetched from the history"),
    "none": N_("messages sent while offline are lost"),
}


class Row(StrEnum):
    """The rows of the status, in order. The value is the name that is shown."""

    HOME = N_("home")
    ADDRESS = N_("address")
    SUPERVISOR = N_("supervisor")
    MODEL = N_("model")
    TURNS = N_("turns")
    LAST_HOUR = N_("last hour")
    LATENCY = N_("latency")
    TOKENS = N_("tokens")
    OUTBOX = N_("outbox")
    JOBS = N_("jobs")
    PLATFORMS = N_("platforms")
    HOME_CHATS = N_("home chats")
    AGENTS = N_("agents")
    SANDBOX = N_("sandbox")
    MESSAGES = N_("messages")
    EVENT_LOOP = N_("event loop")
    STORE = N_("store")
    BACKUP = N_("backup")
    MACHINE = N_("machine")


StatusRow = tuple[Row, str]  # with sanitized text


def status_rows(document: StatusReport, *, now: float) -> Iterator[StatusRow]:
    """The rows that have a text; a row with several lines comes several times."""
    snapshot = document.snapshot
    rows: Iterable[tuple[Row, Iterable[str]]] = (
        (Row.HOME, [document.home]),
        (Row.ADDRESS, [snapshot.address]),
        (Row.SUPERVISOR, [snapshot.supervisor]),
        (Row.MODEL, [_model(snapshot.model)]),
        (Row.TURNS, [_turns(snapshot, now)]),
        (Row.LAST_HOUR, [_last_hour(snapshot.last_hour)]),
        (Row.LATENCY, [_latency(snapshot.last_hour)]),
        (Row.TOKENS, [_tokens(snapshot.last_hour, snapshot.currency)]),
        (Row.OUTBOX, [_outbox(snapshot, now)]),
        (Row.JOBS, [_next_job(snapshot, now)]),
        (Row.PLATFORMS, (platform_text(each, now) for each in snapshot.platforms)),
        (Row.HOME_CHATS, map(_home_chat, snapshot.home_channels)),
        (Row.AGENTS, [_agents(snapshot)]),
        (Row.SANDBOX, [_sandbox(snapshot)]),
        (Row.MESSAGES, [_message_counts(snapshot)]),
        (Row.EVENT_LOOP, [_event_loop(document)]),
        (Row.STORE, [_store(snapshot.store, document.machine)]),
        (Row.BACKUP, [_backup(snapshot.last_backup, now) if snapshot.turns else ""]),
        (Row.MACHINE, [_machine(document.machine)]),
    )
    for row, texts in rows:
        for text in filter(None, texts):
            yield row, sanitize(text)


def _model(model: dict[str, str]) -> str:
    if not model:
        return ""
    provider = model.get("provider", "")
    name = model.get("name") or provider
    return name if name == provider else f"{name} ({provider})"


def _turns(snapshot: GatewaySnapshot, now: float) -> str:
    if not snapshot.turns:
        return ""
    parts = [
        f"{n} {state_text(state)}" for state, n in snapshot.turns.items() if n and state != "idle"
    ]
    parts += [
        _n("{n} {state} subagent", "{n} {state} subagents", n).format(n=n, state=state_text(state))
        for state, n in snapshot.subagents.items()
        if n
    ]
    if snapshot.runs:
        parts.append(_("{n} of them for jobs").format(n=snapshot.runs))
    if snapshot.queued and snapshot.queued_since is None:
        parts.append(_n("{n} queued", "{n} queued", snapshot.queued).format(n=snapshot.queued))
    elif snapshot.queued:
        waited = elapsed(snapshot.queued_since or now, now)
        parts.append(_("{n} queued for {duration}").format(n=snapshot.queued, duration=waited))
    return ", ".join(parts) or _("none")


def _last_hour(hour: HourStats) -> str:
    if not any(hour.turns):
        return ""
    turns, minute = sum(hour.turns), hour.turns[-2] if len(hour.turns) > 1 else 0
    parts = [_n("{n} turn in the last hour", "{n} turns in the last hour", turns).format(n=turns)]
    if hour.failed:
        parts.append(_n("{n} failed", "{n} failed", hour.failed).format(n=hour.failed))
    last = _("{n} in the last full minute").format(n=minute)
    return f"{', '.join(parts)}; {last}"


def _latency(hour: HourStats) -> str:
    return ", ".join(
        text.format(mean=format_duration(mean), worst=format_duration(worst))
        for text, mean, worst in (
            (
                _("first token {mean} (slowest {worst})"),
                hour.first_token_mean,
                hour.first_token_worst,
            ),
            (_("answer {mean} (slowest {worst})"), hour.duration_mean, hour.duration_worst),
        )
        if mean is not None
    )


def _tokens(hour: HourStats, currency: str) -> str:
    if not (hour.input_tokens or hour.output_tokens):
        return ""
    text = _("{input} in ({cached} cached), {output} out").format(
        input=format_count(hour.input_tokens),
        cached=format_percent(hour.cached_tokens / max(1, hour.input_tokens)),
        output=format_count(hour.output_tokens),
    )
    if hour.cost is None:
        return text
    cost = _("cost {amount}").format(amount=format_money(hour.cost, currency))
    return f"{text}, {cost}"


def _outbox(snapshot: GatewaySnapshot, now: float) -> str:
    if snapshot.outbox_since is None:
        return _("empty") if snapshot.turns else ""
    age = elapsed(snapshot.outbox_since, now)
    return _("{n} pending, the oldest for {duration}").format(n=snapshot.outbox, duration=age)


def _next_job(snapshot: GatewaySnapshot, now: float) -> str:
    if snapshot.next_job is None:
        return ""
    return _("next due in {duration}").format(duration=elapsed(now, snapshot.next_job))


def _home_chat(home: HomeChannel) -> str:
    account = f"{home.address.platform}:{home.address.account}"
    return _("{account} in chat {chat}").format(account=account, chat=home.address.chat_id)


def platform_text(platform: AccountStatus, now: float) -> str:
    name = f"{platform.name}:{platform.account}"
    if platform.built_in and platform.connected(now):
        return _("{account} built in").format(account=name)
    known = _BACKLOG_TEXTS.get(platform.backlog)
    backlog = platform.backlog if known is None else _(known)
    return f"{name} {account_text(platform, now=now)}; {backlog}"


def _agents(snapshot: GatewaySnapshot) -> str:
    agents = snapshot.agents
    if not agents.max_agents:
        return ""
    return _(
        "{cached} of {max} cached, {busy} mid-turn, {size}; {hits} cache hits, {misses} misses"
    ).format(
        cached=agents.cached,
        max=agents.max_agents,
        busy=agents.mid_turn,
        size=format_size(agents.bytes),
        hits=format_number(agents.hits),
        misses=format_number(agents.misses),
    )


def _sandbox(snapshot: GatewaySnapshot) -> str:
    if not snapshot.turns:
        return ""
    runners = _n("{n} runner", "{n} runners", snapshot.runners).format(n=snapshot.runners)
    if snapshot.sandboxed is None:
        return f"{runners}, {_('sandbox not used yet')}"
    if snapshot.sandboxed:
        return f"{runners}, {_('sandboxed')}"
    reason = _(snapshot.why_unsandboxed)
    if not snapshot.sandbox_remedy:
        return f"{runners}, {_('NOT sandboxed: {reason}').format(reason=reason)}"
    missing = _("none, so agents have no terminal, processes and files: {reason}.")
    return f"{missing.format(reason=reason)} {_(snapshot.sandbox_remedy)}"


def _message_counts(snapshot: GatewaySnapshot) -> str:
    counts = dict(snapshot.inbox_counts)
    accepted = counts.pop("accepted", 0)
    ends = ", ".join(f"{n} {state_text(state)}" for state, n in counts.items() if n)
    return _("{n} accepted: {states}").format(n=accepted, states=ends) if ends else ""


def _event_loop(document: StatusReport) -> str:
    loop = document.loop
    if loop is None:
        return ""
    return _(
        "last ran {duration} ago; largest delay {minute} s in the last minute, {ever} s since start"
    ).format(
        duration=format_duration(loop.age),
        minute=format_number(loop.worst_minute, 2),
        ever=format_number(loop.worst, 2),
    )


def _store(store: StoreStatus, machine: MachineStatus) -> str:
    if not store.schema:
        return ""
    size = _("{database}, WAL {wal}, schema {schema}").format(
        database=format_size(machine.database), wal=format_size(machine.wal), schema=store.schema
    )
    if store.committed_ago is None:
        return f"{size}; {_('nothing written yet')}"
    commit = _("last commit {duration} ago, in {took} ms (slowest {slowest} ms)").format(
        duration=format_duration(store.committed_ago),
        took=format_number(store.commit_seconds * 1000),
        slowest=format_number(store.slowest * 1000),
    )
    return f"{size}; {commit}"


def _backup(backup: BackupStatus, now: float) -> str:
    if backup.made_at is None:
        return _("none yet") if backup.next_at is not None else _("none, backups are off")
    return _("{size}, verified {duration} ago ({name})").format(
        size=format_size(backup.bytes), duration=elapsed(backup.made_at, now), name=backup.name
    )


def _machine(machine: MachineStatus) -> str:
    parts = []
    if machine.disk_free is not None and machine.disk_size:
        share = format_percent(machine.disk_free / machine.disk_size)
        free = format_size(machine.disk_free)
        parts.append(_("{size} of disk free ({share})").format(size=free, share=share))
    if machine.memory is not None:
        parts.append(_("{size} of memory used").format(size=format_size(machine.memory)))
    if machine.files is not None:
        n = machine.files
        parts.append(_n("{n} open file", "{n} open files", n).format(n=n))
    return ", ".join(parts)


def elapsed(at: float, now: float) -> str:
    return format_duration(max(0.0, now - at))


def headline_text(document: StatusReport) -> str:
    """With `{state}` where the state belongs, which has a colour."""
    text = _("holdfast {version} is {state} (process {pid}, up {uptime})")
    if document.snapshot_age > 1:
        text = _(
            "holdfast {version} is {state}, last update {age} ago (process {pid}, up {uptime})"
        )
    return text.format(
        version=document.version,
        state="{state}",
        age=format_duration(document.snapshot_age),
        pid=document.pid,
        uptime=format_duration(document.uptime),
    )


def transition_lines(snapshot: GatewaySnapshot, now: float) -> Iterator[str]:
    """The phase of a start or stop, and who requested it."""
    if snapshot.phase:
        took = elapsed(snapshot.phase_since, now)
        text = _("{phase} for {duration}").format(
            phase=sanitize(phase_text(snapshot.phase)), duration=took
        )
        yield text
    if (order := snapshot.order) is not None:
        text = _("{kind}, requested by {who} at {time}").format(
            kind=state_text(order.kind), who=state_text(order.by), time=format_time(order.at)
        )
        yield text
    if (order := snapshot.pending_restart) is not None:
        text = _("{kind}, requested by {who} at {time}; it waits until no turn runs").format(
            kind=state_text(order.kind), who=state_text(order.by), time=format_time(order.at)
        )
        yield text


def more_text(number: int) -> str:
    """The last line of a list that is not shown in full."""
    return _("… and {n} more").format(n=number)
