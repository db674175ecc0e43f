"""`holdfast gateway install` and `uninstall`: the systemd or launchd unit of a home."""

import difflib
import grp
import os
import pwd
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.cli.common.options import chosen_home
from holdfast.cli.gateway.lifecycle import (
    ServiceNotInstalled,
    find_service,
    find_supervisors,
    stop_for_removal,
)
from holdfast.config import ConfigError, load, prepare_home
from holdfast.config.files import write_atomically
from holdfast.config.home import process_environment
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import N_, _
from holdfast.service.supervisors.backend import SupervisorBackend, run_or_raise
from holdfast.service.supervisors.installed_units import SYSTEM_HOME, default_home, needed_unit
from holdfast.service.supervisors.unit import Unit, UnitScope
from holdfast.system.paths import Paths, private_dir

MACOS_LIMITS = N_(
    "On macOS, the tools of agents do not work: commands, processes, files and the browser run in "
    "a runner, and runners need Linux. Conversations, platforms and the page work. For agents with "
    "tools, install Holdfast on Linux, or in a virtual machine or a container."
)


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """The options of the command line."""

    scope: str | None
    run_as: str | None
    name: str
    force: bool
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class InstallPlan:
    """The unit to install, and the supervisor that runs it."""

    unit: Unit
    service: SupervisorBackend


def plan_install(options: InstallOptions, home: Path) -> InstallPlan:
    """Options that are not given are taken from the installed unit, if there is one."""
    installed = find_service(home)
    default = UnitScope.USER if os.geteuid() else UnitScope.SYSTEM
    scope = UnitScope(options.scope) if options.scope else installed.scope if installed else default
    name = options.name or (
        installed.file.stem if installed is not None and installed.scope is scope else ""
    )
    if options.run_as and scope is UnitScope.USER:
        raise HoldfastError(
            "--run-as applies to a system unit only: a user unit runs as its user. Add --system, "
            "or leave out --run-as."
        )
    if scope is UnitScope.SYSTEM and options.run_as and home == default_home(process_environment()):
        home = SYSTEM_HOME
    user, group = _resolve_user(options.run_as, home) if scope is UnitScope.SYSTEM else ("", "")
    unit = needed_unit(
        home,
        load(home).settings.gateway,
        environ=process_environment(),
        scope=scope,
        name=name,
        user=user,
        group=group,
    )
    return InstallPlan(unit=unit, service=find_supervisors().backend(unit.name, scope))


def _resolve_user(run_as: str | None, home: Path) -> tuple[str, str]:
    """User and group of a system unit: the given user, or else the owner of the home; "": root."""
    try:
        if run_as:
            entry = pwd.getpwnam(run_as)
        elif home.is_dir():
            entry = pwd.getpwuid(home.stat().st_uid)
        else:
            return "", ""
    except KeyError:
        raise HoldfastError(
            "There is no user {user}. Create one (Debian, Ubuntu: useradd --system {name}) "
            "or name another with --run-as.",
            user=run_as or home.stat().st_uid,
            name=run_as or "holdfast",
        ) from None
    if entry.pw_uid == 0:
        return "", ""
    return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name


_LINGER_DIR = Path("/var/lib/systemd/linger")
_SERVICE_VARIABLES = frozenset({"HOME", "PATH", "LANG", "USER", "LOGNAME", "SHELL"})


def install_hints(planned: InstallPlan) -> Iterator[str]:
    environ = process_environment()
    unit = planned.unit
    yield from _environment_hints(unit.home, environ)
    yield from _linger_hints(planned, environ)
    if unit.scope is UnitScope.SYSTEM and not unit.user:
        yield _("The gateway will run as root. `--run-as USER` gives it fewer rights.")
    home = "" if unit.home == default_home(environ) else f" --home {shlex.quote(str(unit.home))}"
    yield _("Start it:  {command}").format(command=f"holdfast gateway start{home}")


def _environment_hints(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """A service does not get the variables of the shell that installed it."""
    service_environ = {name: value for name, value in environ.items() if name in _SERVICE_VARIABLES}
    here = load(home)
    try:
        there = load(home, service_environ)
    except ConfigError as error:
        yield _(
            "The service would not start, because it does not get the variables of this shell: "
            "{error}"
        ).format(error=error.for_person())
        return
    if there.signature != here.signature:
        set_here = [origin for origin in here.origins.values() if origin.startswith("environment")]
        names = ", ".join(sorted(set(set_here))) or _("the variables of this shell")
        yield _("The service does not get {names}. Put what it needs into {file}.").format(
            names=names, file=home / ".env"
        )


def _linger_hints(planned: InstallPlan, environ: Mapping[str, str]) -> Iterator[str]:
    unit = planned.unit
    if planned.service.file.suffix != ".service":
        return
    who = unit.user or environ.get("USER", "")
    if unit.scope is UnitScope.SYSTEM and not unit.user:
        return
    if who and not (_LINGER_DIR / who).exists():
        command = f"loginctl enable-linger {shlex.quote(who)}"
        if unit.scope is UnitScope.SYSTEM:
            text = _("Run this once, so that commands of agents outlive a restart:  {command}")
        else:
            text = _(
                "Run this once, so that the gateway also runs while you are not logged in:  "
                "{command}"
            )
        yield text.format(command=command)


def install_service(options: InstallOptions) -> None:
    planned = plan_install(options, chosen_home())
    service, unit = planned.service, planned.unit
    if find_supervisors().launchd:  # first, because it decides whether a person wants this at all
        click.echo(click.style(_(MACOS_LIMITS), fg="yellow"))
    content = service.render(unit).decode()
    before = service.file.read_text(encoding="utf-8") if service.file.is_file() else None
    if before == content:
        click.echo(_("{file} is up to date; nothing was changed.").format(file=service.file))
        return
    _refuse_second_unit(planned)
    _print_unit(service.file, before, content, whole=options.dry_run)
    if options.dry_run:
        _print_commands(service.commands_after_install())
        return
    if before is not None and not options.force:
        raise HoldfastError(
            "{file} exists and differs; nothing was changed. `holdfast gateway install "
            "--force` overwrites it.",
            file=service.file,
        )
    _require_supervisor(planned)
    _prepare_home_dirs(planned)
    _write_unit(service, content)
    click.echo(_("{file} is installed.").format(file=service.file))
    for hint in install_hints(planned):
        click.echo(hint)


def uninstall_service(home: Path, *, dry_run: bool) -> None:
    service = find_service(home)
    if service is None:
        raise ServiceNotInstalled(home)
    if not service.is_ours():
        raise HoldfastError(
            "{file} was not written by `holdfast gateway install`, so it is not removed. Remove it "
            "yourself.",
            file=service.file,
        )
    if dry_run:
        _print_commands(
            [
                *service.commands_before_removal(),
                ["rm", str(service.file)],
                *service.commands_after_removal(),
            ]
        )
        return
    stop_for_removal(home, service)
    _run_commands(service.commands_before_removal())
    service.file.unlink()
    _run_commands(service.commands_after_removal())
    click.echo(_("{file} is removed. {home} is kept.").format(file=service.file, home=home))


def _refuse_second_unit(planned: InstallPlan) -> None:
    """A home has one unit, and a unit one home: two units would compete for the lock."""
    service, unit = planned.service, planned.unit
    other = find_service(unit.home)
    if other is not None and other.file != service.file:
        raise HoldfastError(
            "A unit for this home is already installed: {file}. Remove it with `holdfast "
            "gateway uninstall`, or update it with `--name {name}`.",
            file=other.file,
            name=other.file.stem,
        )
    theirs = service.home()
    if theirs is not None and theirs != unit.home:
        raise HoldfastError(
            "{file} is the unit of {home}. Choose another name with --name.",
            file=service.file,
            home=theirs,
        )


def _print_unit(file: Path, before: str | None, content: str, *, whole: bool) -> None:
    click.echo(f"{file}:")
    if before is None or whole:
        click.echo(content if whole else "", nl=whole)
    if before is not None:
        for line in _diff_lines(before, content):
            click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[:1])))


def _diff_lines(before: str, content: str) -> Iterator[str]:
    lines = difflib.unified_diff(before.splitlines(), content.splitlines(), lineterm="", n=1)
    yield from [*lines][2:]


def _require_supervisor(planned: InstallPlan) -> None:
    where = find_supervisors()
    if not (where.launchd or where.systemd):
        raise HoldfastError(
            "There is neither systemd nor launchd. In a container, use `holdfast gateway boot`; "
            "elsewhere let your supervisor run `holdfast run` and restart it unless it exits with "
            "0 or 78. --dry-run shows the unit anyway."
        )
    if planned.service.scope is UnitScope.SYSTEM and os.geteuid():
        raise HoldfastError(
            "Only root can install a system unit. Run `sudo holdfast gateway install …`."
        )
    planned.service.check_available()


def _prepare_home_dirs(planned: InstallPlan) -> None:
    """Creates the home and its log folder, owned by the user of the gateway."""
    home, user = planned.unit.home, planned.unit.user
    # Existing folders keep their owner, who may not be the user who installs.
    missing = [folder for folder in (home, Paths(home).logs) if not folder.exists()]
    if home in missing:
        prepare_home(home)
    owner = pwd.getpwnam(user) if user else None
    for folder in missing:
        private_dir(folder)
        if owner is not None:
            os.chown(folder, owner.pw_uid, owner.pw_gid)


def _write_unit(service: SupervisorBackend, content: str) -> None:
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(
            "{folder} could not be created: {reason}. Check its owner and mode.",
            folder=service.file.parent,
            reason=error.strerror,
        ) from None
    write_atomically(service.file, content, mode=0o644)
    _run_commands(service.commands_after_install())


def _run_commands(commands: Sequence[Sequence[str]]) -> None:
    where = find_supervisors()
    for argv in commands:
        click.echo(f"$ {shlex.join(argv)}")
        run_or_raise(where.run, argv)


def _print_commands(commands: Sequence[Sequence[str]]) -> None:
    for argv in commands:
        click.echo(f"$ {shlex.join(argv)}")
