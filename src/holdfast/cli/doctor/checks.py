"""Health checks of the machine and the home, and `CHECKS`: all health checks in order.

The checks here are of versions, files, disk, lock, backups, unit and sandbox.
"""

import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from holdfast.cli.backup import configured_backup_dir, load_backup_settings
from holdfast.cli.doctor.data_checks import check_config, check_database, check_model
from holdfast.cli.doctor.finding import (
    ExaminedHome,
    FindingLevel,
    HealthCheck,
    HealthFinding,
    ok_finding,
    problem_finding,
)
from holdfast.cli.status.command import parse_status
from holdfast.config.home import process_environment
from holdfast.config.platforms import find_plugin
from holdfast.core.config.settings import (
    BackupSettings,
    GatewaySettings,
    RunnerSettings,
)
from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import StatusReport
from holdfast.core.text.locale_format import format_duration, format_size
from holdfast.core.text.translation import N_, _, _n
from holdfast.runner.bubblewrap import NetworkUnavailable, make_plan
from holdfast.runner.launch import systemd_run_prefix
from holdfast.server.local.control_client import GatewayDown, read_status
from holdfast.server.local.status_client import read_status_report
from holdfast.server.status.problems import disk_problem_level
from holdfast.service.platforms import enabled_accounts
from holdfast.service.supervisors.backend import SupervisorBackend
from holdfast.service.supervisors.drift import repair_command
from holdfast.service.supervisors.installed_units import (
    default_home,
    needed_unit,
    supervisor_backends,
)
from holdfast.store.backup import directory
from holdfast.system.lock import HomeInUse, HomeLock, read_holder

_PASTA_REMEDY = N_(
    'Install pasta (Debian, Ubuntu: `apt install passt`), or set runner.network to "proxy".'
)


def check_home(examined: ExaminedHome) -> Iterable[HealthFinding]:
    home = examined.home
    if not os.access(home, os.W_OK | os.X_OK):
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("{home} cannot be written by this user.").format(home=home),
            why=_("The gateway stores everything there."),
            remedy=_(
                "Run this command as the user who runs the gateway, or choose another --home."
            ),
        )
        return
    yield ok_finding(_("{home} exists and can be written.").format(home=home))


def check_permissions(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """Files with secrets or conversations are readable by their owner only."""
    open_to_others = [path for path in _private_paths(examined) if _mode(path) & 0o077]
    for path in open_to_others:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("{path} can be read by other users (mode {mode:04o}).").format(
                path=path, mode=_mode(path)
            ),
            why=_("It contains keys or conversations."),
            remedy=f"chmod {'700' if path.is_dir() else '600'} {path}",
            fix=partial(_restrict_mode, path),
        )
    if not open_to_others:
        yield ok_finding(_("Private files are readable by their owner only."))


def _private_paths(examined: ExaminedHome) -> Iterator[Path]:
    paths = examined.paths
    yield examined.home
    single = (paths.env_file, paths.secrets, paths.run, paths.workspaces, paths.logs)
    backups = (examined.home / "backups", *examined.home.glob("backups/holdfast-*"))
    several = (*paths.secrets.glob("*"), *examined.store.files(), *backups)
    for path in (*single, *several, examined.home / "runs"):
        if path.exists() and not path.is_socket():
            yield path


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _restrict_mode(path: Path) -> str:
    path.chmod(0o700 if path.is_dir() else 0o600)
    return _("{path} is now readable by its owner only.").format(path=path)


def check_lock(examined: ExaminedHome) -> Iterable[HealthFinding]:
    holder = read_holder(examined.home)
    if holder is None:
        yield ok_finding(_("No gateway is running."))
        return
    try:
        state = read_status(examined.paths)["state"]
    except GatewayDown:
        state = "silent"
    if holder.purpose == "gateway" and state in ("hanging", "silent"):
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("The gateway, process {pid}, holds the home and is {state}.").format(
                pid=holder.pid, state=state
            ),
            why=_("No message is answered, and no other gateway can start."),
            remedy=_(
                "`holdfast logs` may show why. `kill {pid}` ends the gateway; no accepted message "
                "is lost."
            ).format(pid=holder.pid),
        )
    else:
        yield ok_finding(
            _("Process {pid} ({purpose}) holds the home and is {state}.").format(
                pid=holder.pid, purpose=holder.purpose, state=state
            )
        )


# What checks of their own report, with a remedy that fits a stopped gateway, too.
_CHECKED_ELSEWHERE = ("hanging", "unit_drift", "disk_low", "config_invalid")


def check_gateway(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """The problems that `holdfast status` and the dashboard show."""
    if not examined.running:
        yield ok_finding(_("Accounts are checked only while a gateway runs."))
        return
    try:
        report = parse_status(read_status_report(examined.paths))
    except GatewayDown as down:
        yield ok_finding(down.for_person())  # the check of the lock reports a gateway that hangs
        return
    problems = [each for each in report.problems if each.code not in _CHECKED_ELSEWHERE]
    yield from map(problem_finding, problems)
    if not problems:
        yield ok_finding(_("No account, job or delivery has a problem."))
        yield from _unconnected_accounts(report)


def _unconnected_accounts(report: StatusReport) -> Iterator[HealthFinding]:
    """The accounts that are not connected although that is no problem: paused by a person, or not
    connected yet shortly after the start."""
    now = report.started_at + report.uptime - report.snapshot_age
    for each in report.snapshot.platforms:
        account = f"{each.name}:{each.account}"
        if each.state is AccountState.PAUSED:
            yield ok_finding(_("{account} is paused.").format(account=account))
        elif not each.connected(now):
            yield ok_finding(_("{account} is not connected yet.").format(account=account))


def check_leftovers(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """Files that a killed process leaves behind. They do not prevent a start but are confusing."""
    if examined.running:
        yield ok_finding(_("The sockets are in use."))
        return
    paths = examined.paths
    sockets = [paths.status_socket, paths.control_socket, paths.lock]
    drafts = [*examined.home.glob(".*.toml.*"), *examined.home.glob("*.new")]
    stale = [path for path in (*sockets, *drafts) if path.exists() or path.is_socket()]
    for path in stale:
        yield HealthFinding(
            level=FindingLevel.WARNING,
            what=_("{path} was left by a process that has ended.").format(path=path),
            why=_("It does no harm, but it looks as if a gateway were running."),
            remedy=f"rm {path}",
            fix=partial(_remove_leftover, examined.home, path),
        )
    if not stale:
        yield ok_finding(_("There are no leftover files."))


def _remove_leftover(home: Path, path: Path) -> str:
    """Under the lock: a gateway that has started meanwhile uses the file."""
    try:
        with HomeLock(home, purpose="holdfast doctor"):
            path.unlink(missing_ok=True)
    except HomeInUse:
        return _("{path} is in use again and was not removed.").format(path=path)
    return _("{path} is removed.").format(path=path)


def check_disk(examined: ExaminedHome) -> Iterable[HealthFinding]:
    disk = shutil.disk_usage(examined.home)
    free = disk.free
    text = _("The disk of {home} has {size} of free space.").format(
        home=examined.home, size=format_size(free)
    )
    level = disk_problem_level(free=free, size=disk.total)
    if level is None:
        yield ok_finding(text)
        return
    yield HealthFinding(
        level=FindingLevel(level.value),
        what=text,
        why=_("If the disk is full, messages are refused until there is space."),
        remedy=_(
            "Free some space. `[retention]` in holdfast.toml sets how long old data are kept."
        ),
    )


_MIN_PYTHON = (3, 11)


def check_versions(examined: ExaminedHome) -> Iterable[HealthFinding]:
    versions = (
        f"Python {platform.python_version()}, {examined.store.software}, "
        f"{platform.system()} {platform.release()}."
    )
    if sys.version_info >= _MIN_PYTHON:
        yield ok_finding(versions)
        return
    yield HealthFinding(
        level=FindingLevel.PROBLEM,
        what=versions,
        why=_("Holdfast needs Python 3.11 or later."),
        remedy=_("Install Holdfast with a newer Python."),
    )


def check_sandbox(examined: ExaminedHome) -> Iterable[HealthFinding]:
    settings = examined.config.settings.runner if examined.config else RunnerSettings()
    try:
        # In a temporary folder: the test copies the program of the runner there.
        with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
            plan = make_plan(settings, runs=Path(folder))
    except NetworkUnavailable as error:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("No command can be run: {error}").format(error=error.for_person()),
            why=_("Agents that use a terminal cannot work, and the gateway does not start."),
            remedy=_(_PASTA_REMEDY),
        )
        return
    if not plan.runs_commands:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("No sandbox: {reason}.").format(reason=_(plan.why_unsandboxed)),
            why=_("Agents have no terminal, processes and files."),
            remedy=_(plan.remedy),
        )
        return
    if plan.unconfined:
        yield HealthFinding(
            level=FindingLevel.WARNING,
            what=_("Commands run without a sandbox: {reason}.").format(
                reason=_(plan.why_unsandboxed)
            ),
            why=_("They can read and change everything that the gateway can, including its keys."),
            remedy=_("Remove `sandbox` from [runner]."),
        )
    else:
        yield ok_finding(
            _("Commands run in a sandbox: {program} was tested and works.").format(
                program=plan.bwrap
            )
        )
    yield _limits_finding(examined, controllers=plan.cgroups.controllers)


def _limits_finding(examined: ExaminedHome, *, controllers: Collection[str]) -> HealthFinding:
    """Whether something limits a session as a whole: a cgroup, or a scope where systemd starts the
    gateway."""
    if "memory" in controllers:
        names = ", ".join(sorted(controllers))
        return ok_finding(_("Cgroups limit each session ({names}).").format(names=names))
    environ = process_environment()
    backends = supervisor_backends(environ, user_id=os.getuid())
    unit = backends.find_unit(examined.home, default_home=default_home(environ))
    if unit is not None and systemd_run_prefix(environ, user_unit=True, uid=os.getuid()):
        return ok_finding(_("Systemd limits each session with a scope."))
    return HealthFinding(
        level=FindingLevel.WARNING,
        what=_("Shared memory of commands has no limit."),
        why=_(
            "No cgroup can be created here, so `runner.memory_mb` limits each process, and memory "
            "that processes share belongs to none of them."
        ),
        remedy=_("Let systemd start the gateway: `holdfast gateway install`."),
    )


def check_units(examined: ExaminedHome) -> Iterable[HealthFinding]:
    environ = process_environment()
    where = supervisor_backends(environ, user_id=os.getuid())
    service = where.find_unit(examined.home, default_home=default_home(environ))
    if service is None:
        yield ok_finding(_("No unit is installed."))
        return
    yield from _compare_unit(service, examined)


def _compare_unit(service: SupervisorBackend, examined: ExaminedHome) -> Iterable[HealthFinding]:
    settings = examined.config.settings.gateway if examined.config else GatewaySettings()
    unit = needed_unit(
        examined.home,
        settings,
        environ=process_environment(),
        scope=service.scope,
        name=service.file.stem,
    )
    found = [
        HealthFinding(
            level=FindingLevel.PROBLEM if each.broken else FindingLevel.WARNING,
            what=each.sentence(service.file).for_person(),
            why=each.why.for_person(),
            remedy=repair_command(unit),
        )
        for each in service.problems(unit)
    ]
    yield from found or [
        ok_finding(_("{file} matches the configuration.").format(file=service.file))
    ]


_HOUR = 3600.0
_LATE_PERIODS = 2  # after this many periods, a backup is late


def check_backups(examined: ExaminedHome) -> Iterable[HealthFinding]:
    settings = load_backup_settings(examined.home)
    folder = configured_backup_dir(examined.home, settings)
    valid = [one for one in directory.list_backups(folder) if one.manifest is not None]
    if not valid:
        yield _missing_backup(examined, settings)
        return
    age = max(0.0, time.time() - valid[0].made_at)
    text = _n(
        "The only backup in {folder} is {age} old.",
        "The newest of {n} backups in {folder} is {age} old.",
        len(valid),
    ).format(n=len(valid), folder=folder, age=format_duration(age))
    if settings.every_hours and age > _LATE_PERIODS * settings.every_hours * _HOUR:
        yield _late_backup(text)
    else:
        yield ok_finding(text)


def _missing_backup(examined: ExaminedHome, settings: BackupSettings) -> HealthFinding:
    if settings.every_hours or not examined.paths.db.exists():
        return ok_finding(_("There is no backup yet; the gateway creates one automatically."))
    return HealthFinding(
        level=FindingLevel.WARNING,
        what=_("There is no backup, and `backup.every_hours` is 0."),
        why=_("If the disk fails, all conversations are lost."),
        remedy=_("Run `holdfast backup create`, or set `backup.every_hours`."),
    )


def _late_backup(what: str) -> HealthFinding:
    return HealthFinding(
        level=FindingLevel.WARNING,
        what=what,
        why=_("Newer messages exist only in the database."),
        remedy=_(
            "Run `holdfast backup create`. `holdfast logs` may show why the gateway creates none."
        ),
    )


def check_shared_accounts(examined: ExaminedHome) -> Iterable[HealthFinding]:
    """Accounts that two gateways would both answer. The credential locks prevent that on this
    machine; no check can see another one."""
    if examined.config is None:
        yield ok_finding(_("The accounts are not known: the configuration cannot be read."))
        return
    shared = [
        (f"{name}:{account}", plugin.if_shared)
        for name, account, _settings in enabled_accounts(examined.config)
        if (plugin := find_plugin(name)) is not None and plugin.if_shared
    ]
    for account, remedy in shared:
        yield HealthFinding(
            level=FindingLevel.OK,
            what=_("{account} must be used by one gateway only.").format(account=account),
            why=_(
                "The platform gives each message to every gateway with these credentials, so two "
                "on different machines both answer, and this check cannot see another machine."
            ),
            remedy=" ".join((_("If each answer comes twice, stop the other gateway."), _(remedy))),
        )
    if not shared:
        yield ok_finding(_("No account would be answered by two gateways at once."))


CHECKS: Mapping[str, HealthCheck] = {
    "versions": check_versions,
    "home": check_home,
    "permissions": check_permissions,
    "disk": check_disk,
    "config": check_config,
    "lock": check_lock,
    "leftovers": check_leftovers,
    "database": check_database,
    "gateway": check_gateway,
    "accounts": check_shared_accounts,
    "backups": check_backups,
    "units": check_units,
    "sandbox": check_sandbox,
    "model": check_model,
}
