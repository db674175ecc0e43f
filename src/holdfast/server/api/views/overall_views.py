"""The views of the gateway as a whole: its state, its store, and its commands."""

import msgspec

from holdfast.core.ops.facts import EventLoopStatus, GatewaySnapshot, MachineStatus, Problem
from holdfast.server.api.views.search_views import SearchIndexView


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    arguments: str = ""  # as shown: "[NAME]" may be left out
    aliases: tuple[str, ...] = ()
    allowed_mid_turn: bool = True  # False: not while a turn runs


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with the database and with the search index; nothing: they are sound."""

    problems: list[str]
    search: SearchIndexView
    search_problem: str = ""


class StatusView(GatewaySnapshot, frozen=True, kw_only=True):
    """How the gateway is: the same facts that `holdfast status` shows."""

    pid: int
    version: str
    home: str
    started_at: float
    uptime: float
    loop: EventLoopStatus | None
    machine: MachineStatus
    problems: tuple[Problem, ...]
