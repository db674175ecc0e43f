"""The rows of a status: one name and one line for each thing that an operator asks about."""

from collections.abc import Iterator

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_count, format_duration, format_size
from holdfast.cli.status.account_told import account_text
from holdfast.core.ops.facts import (
    AccountStatus,
    BackupStatus,
    GatewaySnapshot,
    HourStats,
    MachineStatus,
    StatusReport,
    StoreStatus,
)

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
