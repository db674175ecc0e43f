"""The rows of a status: one name and one line for each thing that an operator asks about."""

from collections.abc import Iterator

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import amount, duration, size
from holdfast.cli.status.account_told import account_told
from holdfast.core.ops.facts import (
    BackupFacts,
    Document,
    MachineFacts,
    PaceFacts,
    PlatformFacts,
    Snapshot,
    StoreFacts,
)

_BACKLOG = {
    "until_acked": "it keeps messages for us",
    "history_since": "its history is read",
    "none": "nothing is kept while we are away",
}


Row = tuple[str, str]  # a name, "" for one that goes on with the last, and harmless text


def rows(document: Document, *, now: float) -> Iterator[Row]:
    snapshot = document.snapshot
    yield from _row("home", document.home)
    yield from _row("address", snapshot.address)
    yield from _row("supervisor", snapshot.supervisor)
    yield from _row("model", _model(snapshot.model))
    yield from _row("turns", _turns(snapshot, now))
    yield from _row("pace", _pace(snapshot.pace))
    yield from _row("latency", _latency(snapshot.pace))
    yield from _row("tokens", _tokens(snapshot.pace))
    yield from _row("outbox", _outbox(snapshot, now))
    if snapshot.next_job is not None:
        due = duration(max(0.0, snapshot.next_job - now))
        yield from _row("jobs", f"the next is due in {due}")
    for index, platform in enumerate(snapshot.platforms):
        yield from _row("platforms" if index == 0 else "", platform_told(platform, now))
    for index, home in enumerate(snapshot.homes):
        address = home.address
        told = f"{address.platform}:{address.account} in chat {address.chat_id}"
        yield from _row("told in" if index == 0 else "", told)
    yield from _row("agents", _agents(snapshot))
    yield from _row("commands", _commands(snapshot))
    yield from _row("messages", _ledger(snapshot))
    yield from _row("loop", _loop(document))
    yield from _row("store", _store(snapshot.store, document.machine))
    if snapshot.turns:
        yield from _row("backup", _backup(snapshot.last_backup, now))
    yield from _row("machine", _machine(document.machine))


def _row(name: str, value: str) -> Iterator[Row]:
    if value:
        yield name, safe(value)


def _model(model: dict[str, str]) -> str:
    if not model:
        return ""
    provider = model.get("provider", "")
    name = model.get("name") or provider
    return name if name == provider else f"{name} ({provider})"


def _turns(snapshot: Snapshot, now: float) -> str:
    if not snapshot.turns:
        return ""
    told = [f"{n} {state}" for state, n in snapshot.turns.items() if n and state != "idle"]
    told += [f"{n} {kind} children" for kind, n in snapshot.children.items() if n]
    told += [f"{snapshot.runs} of them for jobs"] if snapshot.runs else []
    if snapshot.queued:
        oldest = "" if snapshot.queued_since is None else f" for {_ago(snapshot.queued_since, now)}"
        told.append(f"{snapshot.queued} queued{oldest}")
    return ", ".join(told) or "none"


def _pace(pace: PaceFacts) -> str:
    if not any(pace.turns):
        return ""
    failed = f", {pace.failed} failed" if pace.failed else ""
    minute = pace.turns[-2] if len(pace.turns) > 1 else 0
    turns = "1 turn" if sum(pace.turns) == 1 else f"{sum(pace.turns)} turns"
    return f"{turns} in the last hour{failed}; {minute} in the last whole minute"


def _latency(pace: PaceFacts) -> str:
    told = [
        f"{what} {duration(mean)} (worst {duration(worst)})"
        for what, mean, worst in (
            ("first word", pace.first, pace.first_worst),
            ("answer", pace.whole, pace.whole_worst),
        )
        if mean is not None
    ]
    return ", ".join(told)


def _tokens(pace: PaceFacts) -> str:
    if not (pace.input_tokens or pace.output_tokens):
        return ""
    cached = f" ({pace.cached_tokens / max(1, pace.input_tokens):.0%} cached)"
    cost = "" if pace.cost is None else f", cost {pace.cost:.2f}"
    return f"{amount(pace.input_tokens)} in{cached}, {amount(pace.output_tokens)} out{cost}"


def _outbox(snapshot: Snapshot, now: float) -> str:
    if snapshot.outbox_since is None:
        return "empty" if snapshot.turns else ""
    return f"{snapshot.outbox} owed, the first for {_ago(snapshot.outbox_since, now)}"


def platform_told(platform: PlatformFacts, now: float) -> str:
    name = f"{platform.name}:{platform.account}"
    if platform.here and platform.connected(now):
        return f"{name} here"
    backlog = _BACKLOG.get(platform.backlog, platform.backlog)
    return f"{name} {account_told(platform, now=now)}; {backlog}"


def _agents(snapshot: Snapshot) -> str:
    agents = snapshot.agents
    if not agents.most:
        return ""
    return (
        f"{agents.cached} of {agents.most} kept, {agents.mid_turn} mid-turn, "
        f"{size(agents.bytes)}; {agents.hits} found, {agents.misses} built"
    )


def _commands(snapshot: Snapshot) -> str:
    confined = {
        True: "confined",
        False: f"NOT confined: {snapshot.why_unsandboxed or 'the sandbox is off'}",
        None: "not tried yet",
    }
    runners = "1 runner" if snapshot.runners == 1 else f"{snapshot.runners} runners"
    return f"{runners}, {confined[snapshot.sandboxed]}" if snapshot.turns else ""


def _ledger(snapshot: Snapshot) -> str:
    ledger = dict(snapshot.ledger)
    accepted = ledger.pop("accepted", 0)
    ends = ", ".join(f"{n} {state}" for state, n in ledger.items() if n)
    return f"{accepted} accepted: {ends}" if ends else ""


def _loop(document: Document) -> str:
    loop = document.loop
    if loop is None:
        return ""
    return (
        f"turned {duration(loop.age)} ago; at worst {loop.worst_minute:.2f} s late in the last "
        f"minute, {loop.worst:.2f} s ever"
    )


def _store(store: StoreFacts, machine: MachineFacts) -> str:
    if not store.schema:
        return ""
    told = f"{size(machine.database)}, log {size(machine.database_log)}, schema {store.schema}"
    if store.committed_ago is None:
        return f"{told}; nothing was written yet"
    return (
        f"{told}; last commit {duration(store.committed_ago)} ago, in "
        f"{store.commit_seconds * 1000:.0f} ms (slowest {store.slowest * 1000:.0f} ms)"
    )


def _backup(backup: BackupFacts, now: float) -> str:
    if backup.made_at is None:
        return "none yet" if backup.next_at is not None else "none, and none is made"
    return f"{size(backup.bytes)}, verified {_ago(backup.made_at, now)} ago ({backup.name})"


def _machine(machine: MachineFacts) -> str:
    told = []
    if machine.disk_free is not None and machine.disk_size:
        share = 100 * machine.disk_free / machine.disk_size
        told.append(f"{size(machine.disk_free)} of disk free ({share:.0f} %)")
    if machine.memory is not None:
        told.append(f"{size(machine.memory)} of memory used")
    if machine.files is not None:
        told.append(f"{machine.files} files open")
    return ", ".join(told)


def _ago(at: float, now: float) -> str:
    return duration(max(0.0, now - at))
