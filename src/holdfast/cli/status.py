"""`holdfast status`: how the running gateway is, from its own mouth."""

import sys
from typing import Any

import click

from holdfast.cli.home import chosen_home, home_option
from holdfast.cli.output import brief, duration, json_option, moment, print_facts, print_json
from holdfast.control.client import ControlClient, ControlRefused, GatewayDown, read_status
from holdfast.service import exits
from holdfast.service.lock import read_holder
from holdfast.service.paths import Paths

COLOURS = {"running": "green", "hanging": "red"}
_RICHER_WITHIN = 2.0
_TOLD_BEFORE = frozenset({"state", "pid", "version", "home", "started_at", "uptime", "loop"})


@click.command("status")
@home_option
@json_option
def command(as_json: bool) -> None:
    """Ask the running gateway how it is.

    It is asked over a socket that answers even while the gateway starts, drains or hangs.
    Exits with 0 when one is there, 1 when it hangs, 3 when none is running.
    """
    paths = Paths(chosen_home())
    try:
        document = read_status(paths)
    except GatewayDown as down:
        _tell_down(paths, down, as_json=as_json)
        sys.exit(exits.GATEWAY_DOWN)
    hanging = document["state"] == "hanging"
    if not hanging:
        document["snapshot"] |= _richer(paths)
    if as_json:
        print_json(document)
    else:
        _tell(document)
    sys.exit(exits.FAILED if hanging else exits.OK)


def _richer(paths: Paths) -> dict[str, Any]:
    """What the gateway itself knows beyond its last snapshot; nothing while it cannot say."""
    try:
        answer = ControlClient(paths, timeout=_RICHER_WITHIN).get("/status")
    except (GatewayDown, ControlRefused):
        return {}
    return answer if isinstance(answer, dict) else {}


def _tell(document: dict[str, Any]) -> None:
    state = document["state"]
    name = click.style(state, fg=COLOURS.get(state, "yellow"), bold=True)
    up = duration(document["uptime"])
    click.echo(f"holdfast {document['version']} is {name} (process {document['pid']}, up {up})")
    facts = [("home", document["home"])]
    if loop := document["loop"]:
        seen = f"seen turning {duration(loop['age'])} ago, at worst {loop['worst']:.2f} s late"
        facts.append(("loop", seen))
    snapshot = document["snapshot"]
    facts += [(key, brief(value)) for key, value in snapshot.items() if _worth_telling(key, value)]
    print_facts(facts)


def _worth_telling(key: str, value: Any) -> bool:
    return key not in _TOLD_BEFORE and value not in ("", None)


def _tell_down(paths: Paths, down: GatewayDown, *, as_json: bool) -> None:
    holder = read_holder(paths.home)
    if as_json:
        holding = holder and {"pid": holder.pid, "purpose": holder.purpose, "since": holder.since}
        print_json({"state": "down", "home": str(paths.home), "held_by": holding})
        return
    click.echo(str(down), err=True)
    if holder is not None:
        click.echo(
            f"Process {holder.pid} ({holder.purpose}) has held this home since "
            f"{moment(holder.since)}; it may be starting.",
            err=True,
        )
