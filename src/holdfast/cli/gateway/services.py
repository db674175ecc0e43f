"""The service of a home: the installed unit that keeps its gateway, found for the commands."""

import os
from pathlib import Path

import click

from holdfast.config.surroundings import surroundings
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.fitting import default_home
from holdfast.service.supervisors.installed import Supervision, supervision
from holdfast.service.supervisors.keeping import Keeper, Kept


def supervisors() -> Supervision:
    return supervision(surroundings(), user_id=os.getuid())


def service_of(home: Path) -> Keeper | None:
    """None: no unit of this home is installed where this user could see it."""
    return supervisors().of(home, default_home=default_home(surroundings()))


def tell_kept(keeper: Keeper, kept: Kept) -> None:
    """One line about the unit, for a person."""
    colour = "red" if kept.failed else "green" if kept.pid else "yellow"
    more = [f"process {kept.pid}"] if kept.pid else []
    more += [f"started again {kept.restarts} times"] if kept.restarts else []
    more += [] if kept.at_boot else ["not started at boot"]
    told = f" ({', '.join(more)})" if more else ""
    click.echo(f"{keeper.name} is {click.style(kept.state, fg=colour)}{told}")


class NoService(HoldfastError):
    """No supervisor keeps this home's gateway."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"No service is installed for {home}. `holdfast gateway install` makes one; "
            "`holdfast run` starts the gateway in this terminal."
        )
