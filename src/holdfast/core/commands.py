"""The chat commands: how they are parsed, and one table of names, arguments, help texts and
permissions."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import InboxRow, RouteTarget
from holdfast.core.text.translation import N_, _


class Permission(StrEnum):
    """Who may use a command."""

    TALK = "talk"  # everyone who may talk to the agent
    OPERATE = "operate"  # operators of the gateway


class CommandTopic(StrEnum):
    """The headings of /help, in this order; translated where they are shown."""

    CONVERSATIONS = N_("Conversations")
    WORK = N_("While the agent works")
    APPROVALS = N_("Approvals")
    KNOWLEDGE = N_("Knowledge")
    GATEWAY = N_("The gateway")


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A chat command. Its `help` is translated where it is shown."""

    name: str
    help: str  # one line, without the name
    topic: CommandTopic = CommandTopic.GATEWAY
    arguments: str = ""  # as shown: "[NAME]" may be left out, "TEXT" may not
    aliases: tuple[str, ...] = ()
    permission: Permission = Permission.TALK
    outlives_restart: bool = True  # False: one typed before this start is dropped
    allowed_mid_turn: bool = True  # False: refused while a turn runs
    is_message: bool = False  # True: its argument is a message to the agent
    strict: bool = True  # False: arguments that it does not take are ignored

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()

    def argument_problem(self, argument: str) -> str | None:
        """What is wrong with an argument, by this table alone; None: nothing."""
        if argument and not self.arguments and self.strict:
            return self.usage_error(_("/{name} takes no argument.").format(name=self.name))
        if not argument and self.arguments and not self.arguments.startswith("["):
            return self.usage_error(_("/{name} needs an argument.").format(name=self.name))
        return None

    def unknown_argument(self, argument: str) -> str:
        return self.usage_error(
            _("/{name} does not know {argument!r}.").format(name=self.name, argument=argument)
        )

    def usage_error(self, why: str) -> str:
        """The reply to a wrong use of it, in the language of the context."""
        usage = _("Usage: {usage} - {help}").format(usage=self.usage, help=_(self.help))
        return f"{why} {usage}"


COMMANDS = (
    CommandSpec(
        name="approvals",
        topic=CommandTopic.APPROVALS,
        arguments="[revoke N]",
        help=N_("show pending approvals and standing rules, or revoke a rule"),
    ),
    CommandSpec(
        name="approve",
        topic=CommandTopic.APPROVALS,
        arguments="[N | all] [session | always]",
        help=N_("run a command that waits for your approval"),
    ),
    CommandSpec(
        name="background",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        help=N_("work on TEXT in the background, and report here when it is done"),
    ),
    CommandSpec(
        name="busy",
        topic=CommandTopic.WORK,
        arguments="[interrupt | queue | steer | default]",
        help=N_("show or choose what a new message does while the agent works"),
    ),
    CommandSpec(
        name="compact",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[WHAT TO KEEP]",
        help=N_("summarise the older part of this conversation to make room"),
        allowed_mid_turn=False,  # a running turn makes room for itself
    ),
    CommandSpec(
        name="cron",
        topic=CommandTopic.WORK,
        arguments="[list | add | pause N | resume N | run N | stop N | rm N | history N]",
        help=N_('do something later or regularly: /cron add "every weekday at 9" TEXT'),
    ),
    CommandSpec(
        name="deny",
        topic=CommandTopic.APPROVALS,
        arguments="[N | all] [WHY]",
        help=N_("refuse a command that waits for your approval"),
    ),
    CommandSpec(
        name="fork",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[TITLE]",
        help=N_("continue in a copy of this conversation, and keep the original"),
        allowed_mid_turn=False,
    ),
    CommandSpec(
        name="help",
        arguments="[COMMAND]",
        aliases=("start",),  # platforms send it when a chat with a bot is opened
        help=N_("show the commands of the gateway"),
    ),
    CommandSpec(
        name="memory",
        topic=CommandTopic.KNOWLEDGE,
        arguments="[add TEXT | edit N TEXT | forget N | clear | off | on]",
        help=N_("show or change what is remembered about you"),
    ),
    CommandSpec(
        name="model",
        arguments="[NAME | default]",
        help=N_("show the model, or choose another one for this conversation"),
    ),
    CommandSpec(
        name="new",
        topic=CommandTopic.CONVERSATIONS,
        aliases=("reset",),
        help=N_("start a new conversation; the old one is kept"),
    ),
    CommandSpec(
        name="pairing",
        arguments="[approve CODE | deny WHO | revoke WHO]",
        help=N_("show who asks for access and who has it; approve, deny or revoke it"),
        permission=Permission.OPERATE,
    ),
    CommandSpec(
        name="queue",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        aliases=("q",),
        is_message=True,
        help=N_("send a message that is answered after the current work"),
    ),
    CommandSpec(
        name="quiet",
        topic=CommandTopic.WORK,
        arguments="[on | off | default]",
        help=N_("show or choose whether this chat gets answers only"),
    ),
    CommandSpec(
        name="restart",
        arguments="[now | when idle]",
        help=N_("restart the gateway; now: without waiting for turns to reach a safe point"),
        permission=Permission.OPERATE,
        outlives_restart=False,  # every successor would restart again
    ),
    CommandSpec(
        name="resume",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[N | TITLE | ID]",
        help=N_("go back to an earlier conversation; without a name, to the last one"),
        allowed_mid_turn=False,  # waiting messages would be separated from the turn
    ),
    CommandSpec(
        name="retry",
        topic=CommandTopic.CONVERSATIONS,
        help=N_("answer the last message again"),
        allowed_mid_turn=False,
    ),
    CommandSpec(
        name="search",
        topic=CommandTopic.KNOWLEDGE,
        arguments="WORDS",
        help=N_("search this conversation and your other ones"),
    ),
    CommandSpec(
        name="sessions",
        topic=CommandTopic.CONVERSATIONS,
        help=N_("list the conversations that you can resume"),
    ),
    CommandSpec(
        name="sethome",
        arguments="[off]",
        help=N_("send notices about stops and restarts of the gateway to this chat"),
        permission=Permission.OPERATE,
    ),
    CommandSpec(name="status", help=N_("show what this session and the gateway are doing")),
    CommandSpec(
        name="steer",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        is_message=True,
        help=N_("add to what the agent is working on, without interrupting it"),
    ),
    CommandSpec(
        name="stop",
        topic=CommandTopic.WORK,
        arguments="[all]",
        help=N_("stop the current work and drop waiting messages; all: also stop background work"),
        strict=False,  # "/stop please" is a /stop
        outlives_restart=False,  # what it should have stopped ended with that process
    ),
    CommandSpec(
        name="title",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[TEXT]",
        help=N_("show or change the title of this conversation"),
    ),
    CommandSpec(
        name="undo",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[N]",
        help=N_("take back the last exchange, or the last N"),
        allowed_mid_turn=False,
    ),
    CommandSpec(name="usage", help=N_("show how many tokens were used, here and in total")),
)


class MenuEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A command as a platform's menu shows it."""

    name: str
    help: str


def command_menu(permission: Permission = Permission.TALK) -> tuple[MenuEntry, ...]:
    """The commands for the menu of a platform, in the language of the context: names without
    slash, no aliases."""
    return tuple(
        MenuEntry(name=spec.name, help=_(spec.help))
        for spec in COMMANDS
        if permission is Permission.OPERATE or spec.permission is Permission.TALK
    )


def index_commands(table: Iterable[CommandSpec]) -> Mapping[str, CommandSpec]:
    """Each command by its name and its aliases."""
    return {name: spec for spec in table for name in (spec.name, *spec.aliases)}


COMMANDS_BY_NAME = index_commands(COMMANDS)

_PATTERN = re.compile(r"/([a-z][a-z_]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)

_COMMAND_WORDS = {
    "yes": ("approve", ""),
    "y": ("approve", ""),
    "no": ("deny", ""),
    "n": ("deny", ""),
    "session": ("approve", "session"),
    "always": ("approve", "always"),
}


def parse_command_word(text: str) -> tuple[str, str] | None:
    """The command and argument for a plain word (`yes`, `always`) that answers an approval."""
    return _COMMAND_WORDS.get(text.strip().rstrip(".!").lower()) if len(text) < 16 else None


def parse_command(text: str) -> tuple[str, str] | None:
    """Name and argument; None: the text is not a command (a path begins with / too)."""
    match = _PATTERN.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def text_for_agent(text: str) -> str | None:
    """The part of a text that reaches the agent; None: it is a command for the gateway."""
    parsed = parse_command(text)
    if parsed is None:
        return text
    name, argument = parsed
    spec = COMMANDS_BY_NAME.get(name)
    return argument if spec is not None and spec.is_message and argument else None


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command as it was typed: its message, and its session, if its route has one."""

    row: InboxRow
    argument: str
    session_id: SessionId | None
    late: bool = False  # it was typed before this start
    route_target: RouteTarget | None = None  # the session of its route, as its commit found it
    running: tuple[InboxId, ...] = ()  # the commands that run now, itself among them
