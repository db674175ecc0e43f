"""Starts, stops and restarts a gateway and its supervisor together, and waits until it is done.

Also `gateway boot` for containers, and `gateway status` and `gateway logs`, which add the state of
the supervisor.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from holdfast.cli import logs
from holdfast.cli.common.language import phase_text, state_text
from holdfast.cli.common.options import chosen_home
from holdfast.cli.common.output import print_json
from holdfast.cli.status import command as status_module
from holdfast.config import prepare_home
from holdfast.config.home import process_environment
from holdfast.core.errors import HoldfastError
from holdfast.core.text.locale_format import format_duration
from holdfast.core.text.translation import _, _n
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.local.control_client import (
    ControlClient,
    GatewayDown,
    GatewayRefused,
    read_status,
)
from holdfast.service.child_process import GatewayLauncher, RestartBackoff, cancel_respawn
from holdfast.service.intent import IntentFile
from holdfast.service.signals import SignalQueue
from holdfast.service.successor import module_command, successor_environ
from holdfast.service.supervisors.backend import SupervisorBackend, UnitStatus
from holdfast.service.supervisors.container import (
    HANDLED_SIGNALS,
    ContainerSocket,
    ContainerSupervisor,
    ask_container_supervisor,
)
from holdfast.service.supervisors.current import BOOT_VARIABLE
from holdfast.service.supervisors.installed_units import (
    SupervisorBackends,
    default_home,
    supervisor_backends,
)
from holdfast.system import exit_codes
from holdfast.system.clock import SystemClock
from holdfast.system.lock import HomeInUse, HomeLock, LockHolder, read_holder
from holdfast.system.paths import Paths, private_dir
from holdfast.system.process import has_ended, open_pidfd


def cancel_pending_start(home: Path) -> bool:
    """True if no gateway runs here and a pending start was cancelled, that of a successor or of the
    boot process of a container. It stays down, as after any stop."""
    return read_holder(home) is None and cancel_respawn(str(Paths(home).run)) and record_stop(home)


def record_stop(home: Path) -> bool:
    """Records that an operator has stopped it; False: a process holds the home after all."""
    paths = Paths(home)
    order = StopOrder(kind=StopKind.STOP, by=StopRequester.CLI, at=time.time())
    try:
        with HomeLock(home, purpose="stop"):
            IntentFile(paths.intent, now=time.time).record_stopping(order, "")
    except HomeInUse:
        return False  # it has just been started
    return True


# No event tells another process that a socket was created, so this polls.
_POLL_SECONDS = 0.05
_STOP_RESPONSE_TIMEOUT = 5.0  # seconds
_RESTART_RESPONSE_TIMEOUT = 40.0  # seconds; its successor is checked first


class GatewayTimedOut(HoldfastError):
    """The gateway did not stop, or its successor did not start, within the timeout."""


def stop_gateway(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """Returns when the process has ended. If it was restarting, its successor is stopped too: after
    a stop no gateway may run."""
    watch = _ProgressWatch(timeout, quiet=as_json)
    if cancel_pending_start(home):
        _print_result(
            as_json,
            watch,
            _("The pending start of the gateway of {home} is cancelled.").format(home=home),
            {"stopped": None},
        )
        return
    pid = _stop_until_gone(home, watch, now=now)
    _print_result(
        as_json, watch, _("The gateway of {home} has stopped.").format(home=home), {"stopped": pid}
    )


def _stop_until_gone(home: Path, watch: "_ProgressWatch", *, now: bool) -> int:
    """Returns the id of the last process that ended, when none follows it."""
    with _open_holder(home) as (holder, fd):
        restarting = _is_restarting(home)
        try:
            watch.follow(
                Paths(home), "/stop", {"now": now}, response_timeout=_STOP_RESPONSE_TIMEOUT
            )
        except GatewayDown:
            # It is starting and has no control socket yet, or hangs. SIGINT means the same.
            signal.pidfd_send_signal(fd, signal.SIGINT)
        watch.wait_until_gone(fd, holder)
    if not (restarting and _wait_for_successor(home, holder, watch)):
        return holder.pid
    pid = holder.pid
    with suppress(GatewayDown):  # it was stopped while it started, and has ended
        # The stop has already hurried the drain of the restart: the interrupted turns run again
        # here, and are not given the whole drain timeout a second time.
        pid = _stop_until_gone(home, watch, now=True)
    record_stop(
        home
    )  # it may have ended because its respawner was cancelled, which is not recorded
    return pid


def restart_gateway(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """Returns when the successor accepts messages."""
    watch = _ProgressWatch(timeout, quiet=as_json)
    with _open_holder(home) as (holder, fd):
        try:
            watch.follow(
                Paths(home), "/restart", {"mode": mode}, response_timeout=_RESTART_RESPONSE_TIMEOUT
            )
        except GatewayRefused as refused:
            _report_refusal(refused, as_json=as_json)
        watch.wait_until_gone(fd, holder)
    pid = watch.wait_until_ready(Paths(home), holder)
    facts = {"restarted": holder.pid, "pid": pid}
    _print_result(
        as_json,
        watch,
        _("The gateway of {home} has restarted as process {pid}.").format(home=home, pid=pid),
        facts,
    )


class _ProgressWatch:
    """Owns the deadline of one stop or restart, and prints its phases."""

    def __init__(self, timeout: float, *, quiet: bool) -> None:
        self._began = time.monotonic()
        self.timeout = timeout
        self._quiet = quiet

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def remaining(self) -> float:
        return max(0.01, self.timeout - self.elapsed)

    def follow(
        self, paths: Paths, path: str, body: dict[str, Any], *, response_timeout: float
    ) -> None:
        with suppress(TimeoutError):
            client = ControlClient(paths, timeout=min(response_timeout, self.remaining))
            for line in client.follow(path, body, line_timeout=self.remaining):
                self._print_phase(str(line["phase"]))

    def wait_until_gone(self, fd: int, holder: LockHolder) -> None:
        if not has_ended(fd, timeout=self.remaining):
            raise GatewayTimedOut(
                "Process {pid} has not ended within {timeout:g} s; it is still stopping. "
                "`holdfast status` shows its phase. If it hangs, use `kill -9 {pid}`: no "
                "accepted message is lost.",
                pid=holder.pid,
                timeout=self.timeout,
            )

    def wait_until_ready(self, paths: Paths, previous: LockHolder) -> int:
        while self.elapsed < self.timeout:
            with suppress(GatewayDown):
                status = read_status(paths)
                self._print_phase(str(status["state"]))
                if status["state"] == "running" and status["pid"] != previous.pid:
                    return int(status["pid"])
            time.sleep(_POLL_SECONDS)
        raise GatewayTimedOut(
            "Process {pid} has ended, but no successor accepted messages within {timeout:g} s. "
            "`holdfast logs` shows why; `holdfast run` starts a gateway.",
            pid=previous.pid,
            timeout=self.timeout,
        )

    def _print_phase(self, phase: str) -> None:
        if not self._quiet and sys.stderr.isatty():
            click.echo(click.style(f"  {phase_text(state_text(phase))}", dim=True), err=True)


def _wait_for_successor(home: Path, previous: LockHolder, watch: _ProgressWatch) -> bool:
    """Waits until it is known whether a successor runs; False: cancelled, or none came."""
    cancelled = False
    while watch.elapsed < watch.timeout:
        holder = read_holder(home)
        if holder is None:
            # The respawner is cancelled first; when it has ended, no successor can come.
            if cancel_respawn(str(Paths(home).run)):
                cancelled = True
            elif cancelled and record_stop(home):
                return False
        elif holder.pid != previous.pid and _answers_status(home, holder):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _answers_status(home: Path, holder: LockHolder) -> bool:
    """False for one that is still starting: it may have been stopped already."""
    try:
        return bool(read_status(Paths(home))["pid"] == holder.pid)
    except GatewayDown:
        return False


@contextmanager
def _open_holder(home: Path) -> Iterator[tuple[LockHolder, int]]:
    """The holder of the home, with a pidfd of exactly that process."""
    holder = read_holder(home)
    fd = open_pidfd(holder.pid, expected_start=holder.start_time) if holder is not None else None
    if holder is None or fd is None or holder.purpose != "gateway":
        raise GatewayDown(
            "No gateway is running for {home}. Start it with `holdfast run`.", home=home
        )
    try:
        yield holder, fd
    finally:
        os.close(fd)


def _is_restarting(home: Path) -> bool:
    """Whether the holder of the home is restarting: it records that first."""
    intent = IntentFile(Paths(home).intent, now=time.time).read()
    return intent is not None and intent.restart is not None


def _report_refusal(refused: GatewayRefused, *, as_json: bool) -> None:
    if not as_json:
        raise HoldfastError("Not restarted: {reason}", reason=refused.reason) from None
    print_json({"restarted": None, "error": refused.reason})
    sys.exit(exit_codes.FAILED)


def _print_result(
    as_json: bool, watch: _ProgressWatch, sentence: str, fields: dict[str, Any]
) -> None:
    if as_json:
        print_json({**fields, "seconds": round(watch.elapsed, 3)})
    else:
        took = _("It took {time}.").format(time=format_duration(watch.elapsed))
        click.echo(f"{sentence} {took}")


def find_supervisors() -> SupervisorBackends:
    return supervisor_backends(process_environment(), user_id=os.getuid())


def find_service(home: Path) -> SupervisorBackend | None:
    """None: no unit of this home is installed that this user can see."""
    return find_supervisors().find_unit(home, default_home=default_home(process_environment()))


def print_service_state(service: SupervisorBackend, state: UnitStatus) -> None:
    """Prints one line about the unit."""
    colour = "red" if state.failed else "green" if state.pid else "yellow"
    more = [_("process {pid}").format(pid=state.pid)] if state.pid else []
    if state.restarts:
        more += [
            _n("restarted {n} time", "restarted {n} times", state.restarts).format(n=state.restarts)
        ]
    more += [] if state.enabled else [_("not started at boot")]
    text = _("{service} is {state}").format(
        service=service.name, state=click.style(state.state, fg=colour)
    )
    click.echo(f"{text} ({', '.join(more)})" if more else text)


class ServiceNotInstalled(HoldfastError):
    """No unit is installed for this home."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            "No service is installed for {home}. `holdfast gateway install` installs one; "
            "`holdfast run` starts the gateway in this terminal.",
            home=home,
        )


_REMOVAL_STOP_TIMEOUT = 900.0  # seconds


def start(home: Path) -> None:
    service = find_service(home)
    if service is not None:
        service.start()
        print_service_state(service, service.status())
    elif not _ask_boot_process(home):
        raise ServiceNotInstalled(home)


def _ask_boot_process(home: Path) -> bool:
    """True: the boot process of the container was asked to start it; False: there is none."""
    answer = ask_container_supervisor(Paths(home), "start")
    if answer is not None:
        click.echo(
            _(
                "Answer of the container's boot process: {answer}. `holdfast status` shows when "
                "the gateway is ready."
            ).format(answer=answer)
        )
    return answer is not None


def stop(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """Stops the gateway first, so that this is recorded as a stop by an operator; then its
    supervisor, which may be about to start it again."""
    service = find_service(home)
    try:
        stop_gateway(home, now=now, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if service is None or not service.status().active:
            raise
        click.echo(
            _("No gateway was running; {service} will not start it.").format(service=service.name),
            err=True,
        )
    if service is not None and service.status().active:
        service.stop()


def restart(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """The gateway asks its supervisor. If no gateway runs, the supervisor is asked directly."""
    service = find_service(home)
    try:
        restart_gateway(home, mode=mode, timeout=timeout, as_json=as_json)
    except GatewayDown:
        if service is None and not _ask_boot_process(home):
            raise
        if service is not None:
            click.echo(
                _("No gateway was running; {service} is started.").format(service=service.name),
                err=True,
            )
            service.restart()


def stop_for_removal(home: Path, service: SupervisorBackend) -> None:
    """Stops the gateway and its service; neither starts again."""
    with suppress(GatewayDown):  # the service is stopped in any case
        stop_gateway(home, now=False, timeout=_REMOVAL_STOP_TIMEOUT, as_json=False)
    if service.status().active:
        service.stop()


def boot(home: Path, *, command: Sequence[str] = (), backoff: RestartBackoff | None = None) -> int:
    """Returns when the container ends. `command`: the program to start, if not this one."""
    prepare_home(home)
    paths, clock = Paths(home), SystemClock()
    intent = IntentFile(paths.intent, now=clock.now)
    folder = str(private_dir(paths.run))
    # Signal handlers first: an earlier signal would end the container at once, or be lost, as this
    # is process 1.
    with (
        SignalQueue(HANDLED_SIGNALS) as signals,
        GatewayLauncher(folder) as launcher,
        ContainerSocket(paths) as control,
    ):
        return ContainerSupervisor(
            [*(command or module_command()), "run", "--home", str(home)],
            environ=successor_environ(process_environment()) | {BOOT_VARIABLE: "1"},
            launcher=launcher,
            control=control,
            signals=signals,
            intent=intent.read,
            clock=clock,
            report=_print_boot_message,
            backoff=backoff,
        ).run()


def _print_boot_message(text: str) -> None:
    click.echo(f"boot: {text}", err=True)  # the log of the container


_MACHINE_OPTIONS = ("as_json", "quiet", "watch")


def _show_status(**options: Any) -> None:
    if not any(map(options.get, _MACHINE_OPTIONS)):
        _print_supervisor_state(chosen_home())
    click.get_current_context().invoke(status_module.command, **options)


def _print_supervisor_state(home: Path) -> None:
    service = find_service(home)
    try:
        if service is not None:
            print_service_state(service, service.status())
        elif (boot := ask_container_supervisor(Paths(home), "state")) is not None:
            click.echo(_("Boot process of the container: {state}").format(state=boot))
    except HoldfastError as error:
        click.echo(error.for_person(), err=True)  # the gateway may still answer


# The options are those of `holdfast status`.
status_command = click.Command(
    "status",
    params=status_module.command.params,
    callback=_show_status,
    help=status_module.command.help,
)


def _show_logs(**options: Any) -> None:
    service = find_service(chosen_home()) if sys.stderr.isatty() else None
    if service is not None:
        click.echo(
            _("Output of the service before the log begins:  {command}").format(
                command=service.log_command()
            ),
            err=True,
        )
    click.get_current_context().invoke(logs.command, **options)


# The options are those of `holdfast logs`.
logs_command = click.Command(
    "logs", params=logs.command.params, callback=_show_logs, help=logs.command.help
)
