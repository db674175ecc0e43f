"""Every chat command by its name; `core/commands.py` describes them.

Imported at the first command.
"""

from collections.abc import Mapping
from functools import partial

from holdfast.gateway.commands.admin import cmd_pairing, cmd_restart, cmd_sethome
from holdfast.gateway.commands.approvals import cmd_approvals, cmd_approve, cmd_deny
from holdfast.gateway.commands.context import Command, CommandContexts
from holdfast.gateway.commands.info import cmd_help, cmd_status, cmd_usage
from holdfast.gateway.commands.jobs import cmd_cron
from holdfast.gateway.commands.memory import cmd_memory
from holdfast.gateway.commands.sessions import (
    cmd_compact,
    cmd_fork,
    cmd_new,
    cmd_resume,
    cmd_retry,
    cmd_search,
    cmd_sessions,
    cmd_title,
    cmd_undo,
)
from holdfast.gateway.commands.settings import cmd_busy, cmd_model, cmd_quiet
from holdfast.gateway.commands.turn import cmd_background, cmd_queue, cmd_steer, cmd_stop


def bind_commands(contexts: CommandContexts) -> Mapping[str, Command]:
    """In the order of `core/commands.py`."""
    return {
        "approvals": partial(cmd_approvals, contexts.approvals),
        "approve": partial(cmd_approve, contexts.approvals),
        "background": partial(cmd_background, contexts.turn),
        "busy": partial(cmd_busy, contexts.settings),
        "compact": partial(cmd_compact, contexts.history),
        "cron": partial(cmd_cron, contexts.jobs),
        "deny": partial(cmd_deny, contexts.approvals),
        "fork": partial(cmd_fork, contexts.sessions),
        "help": partial(cmd_help, contexts.replies, contexts.access),
        "memory": partial(cmd_memory, contexts.memory),
        "model": partial(cmd_model, contexts.settings),
        "new": partial(cmd_new, contexts.sessions),
        "pairing": partial(cmd_pairing, contexts.replies, contexts.pairing),
        "queue": partial(cmd_queue, contexts.turn),
        "quiet": partial(cmd_quiet, contexts.settings),
        "restart": partial(cmd_restart, contexts.admin),
        "resume": partial(cmd_resume, contexts.sessions),
        "retry": partial(cmd_retry, contexts.history),
        "search": partial(cmd_search, contexts.sessions),
        "sessions": partial(cmd_sessions, contexts.sessions),
        "sethome": partial(cmd_sethome, contexts.admin),
        "status": partial(cmd_status, contexts.info),
        "steer": partial(cmd_steer, contexts.turn),
        "stop": partial(cmd_stop, contexts.turn),
        "title": partial(cmd_title, contexts.sessions),
        "undo": partial(cmd_undo, contexts.history),
        "usage": partial(cmd_usage, contexts.info),
    }
