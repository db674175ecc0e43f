"""The service of a home: the installed unit that keeps its gateway, found for the commands."""

import os
from pathlib import Path

import click

from holdfast.config.surroundings import process_environment
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.fitting import default_home
from holdfast.service.supervisors.installed import SupervisorBackends, supervisor_backends
from holdfast.service.supervisors.keeping import SupervisorBackend, UnitStatus


def find_supervisors() -> SupervisorBackends:
    return supervisor_backends(process_environment(), user_id=os.getuid())


def find_service(home: Path) -> SupervisorBackend | None:
    """None: no unit of this home is installed where this user could see it."""
    return find_supervisors().find_unit(home, default_home=default_home(process_environment()))


def print_service_state(service: SupervisorBackend, state: UnitStatus) -> None:
    """One line about the unit, for a person."""
    colour = "red" if state.failed else "green" if state.pid else "yellow"
    more = [f"process {state.pid}"] if state.pid else []
    more += [f"started again {state.restarts} times"] if state.restarts else []
    more += [] if state.enabled else ["not started at boot"]
    told = f" ({', '.join(more)})" if more else ""
    click.echo(f"{service.name} is {click.style(state.state, fg=colour)}{told}")


class ServiceNotInstalled(HoldfastError):
    """No supervisor keeps this home's gateway."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"No service is installed for {home}. `holdfast gateway install` makes one; "
            "`holdfast run` starts the gateway in this terminal."
        )
