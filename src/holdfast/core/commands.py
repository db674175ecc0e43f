"""The chat commands: how they are parsed, and one table of names, arguments, help texts and
permissions."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import InboxRow, RouteTarget


class Permission(StrEnum):
    """Who may give a command."""

    TALK = "talk"  # whoever may talk to the agent
    OPERATE = "operate"  # whoever runs the gateway


class CommandTopic(StrEnum):
    """Under which heading /help lists a command, in the order of the headings."""

    CONVERSATIONS = "Conversations"
    WORK = "While the agent works"
    APPROVALS = "Approvals"
    KNOWLEDGE = "What is known"
    GATEWAY = "The gateway"


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str  # one line, without the name
    topic: CommandTopic = CommandTopic.GATEWAY
    arguments: str = ""  # as shown: "[NAME]" may be left out, "TEXT" may not
    aliases: tuple[str, ...] = ()
    permission: Permission = Permission.TALK
    outlives_restart: bool = True  # False: one typed before this start is dropped
    allowed_mid_turn: bool = True  # False: while a turn runs it says so and does nothing
    is_message: bool = False  # True: what follows it is said to the agent, and answered by it
    strict: bool = True  # False: words that it does not ask for are passed over

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()

    def argument_problem(self, argument: str) -> str | None:
        """What is wrong with an argument, by the table alone; None: nothing."""
        if argument and not self.arguments and self.strict:
            return self.usage_error(f"/{self.name} takes nothing after it.")
        if not argument and self.arguments and not self.arguments.startswith("["):
            return self.usage_error(f"/{self.name} needs something after it.")
        return None

    def usage_error(self, why: str) -> str:
        """What whoever typed it wrong is told."""
        return f"{why} Usage: {self.usage} - {self.help}"


COMMANDS = (
    CommandSpec(
        name="approvals",
        topic=CommandTopic.APPROVALS,
        arguments="[revoke N]",
        help="show what waits for approval and which approvals stand, or revoke one",
    ),
    CommandSpec(
        name="approve",
        topic=CommandTopic.APPROVALS,
        arguments="[N | all] [session | always]",
        help="let a command run that waits for your word",
    ),
    CommandSpec(
        name="background",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        help="do TEXT beside this conversation, and tell it here when it is done",
    ),
    CommandSpec(
        name="busy",
        topic=CommandTopic.WORK,
        arguments="[interrupt | queue | steer | default]",
        help="show or choose what a new message does while the agent works",
    ),
    CommandSpec(
        name="compact",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[WHAT TO KEEP]",
        help="summarise the older part of this conversation, to make room",
        allowed_mid_turn=False,  # the turn that runs makes room for itself
    ),
    CommandSpec(
        name="cron",
        topic=CommandTopic.WORK,
        arguments="[list | add | pause N | resume N | run N | stop N | rm N | history N]",
        help='have something done later or regularly: /cron add "every weekday at 9" TEXT',
    ),
    CommandSpec(
        name="deny",
        topic=CommandTopic.APPROVALS,
        arguments="[N | all] [WHY]",
        help="do not let a command run that waits for your word",
    ),
    CommandSpec(
        name="fork",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[TITLE]",
        help="go on in a copy of this conversation, and keep it as it is",
        allowed_mid_turn=False,
    ),
    CommandSpec(
        name="help",
        arguments="[COMMAND]",
        aliases=("start",),  # what a chat with a bot begins with
        help="show what the gateway itself can do",
    ),
    CommandSpec(
        name="memory",
        topic=CommandTopic.KNOWLEDGE,
        arguments="[add TEXT | edit N TEXT | forget N | clear | off | on]",
        help="show or change what is remembered about you",
    ),
    CommandSpec(
        name="model",
        arguments="[NAME | default]",
        help="show the model, or use another one in this conversation",
    ),
    CommandSpec(
        name="new",
        topic=CommandTopic.CONVERSATIONS,
        aliases=("reset",),
        help="begin a new conversation; the old one is kept",
    ),
    CommandSpec(
        name="pairing",
        arguments="[approve CODE | deny WHO | revoke WHO]",
        help="show who asks to be let in and who was, let somebody in, or send them away",
        permission=Permission.OPERATE,
    ),
    CommandSpec(
        name="queue",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        aliases=("q",),
        is_message=True,
        help="say something that is answered after what runs now",
    ),
    CommandSpec(
        name="quiet",
        topic=CommandTopic.WORK,
        arguments="[on | off | default]",
        help="show or choose whether this chat gets answers and nothing else",
    ),
    CommandSpec(
        name="restart",
        arguments="[now | when idle]",
        help="start the gateway again; now: without letting turns come to a good place first",
        permission=Permission.OPERATE,
        outlives_restart=False,  # it would restart every successor that finds it
    ),
    CommandSpec(
        name="resume",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[N | TITLE | ID]",
        help="go back to an earlier conversation; without a name, to the last one",
        allowed_mid_turn=False,  # what waits behind the turn would be parted from it
    ),
    CommandSpec(
        name="retry",
        topic=CommandTopic.CONVERSATIONS,
        help="have the last message answered again",
        allowed_mid_turn=False,
    ),
    CommandSpec(
        name="search",
        topic=CommandTopic.KNOWLEDGE,
        arguments="WORDS",
        help="find where something was said, here and in your other conversations",
    ),
    CommandSpec(
        name="sessions",
        topic=CommandTopic.CONVERSATIONS,
        help="list the conversations that can be gone back to",
    ),
    CommandSpec(
        name="sethome",
        arguments="[off]",
        help="tell this chat when the gateway stops, restarts and is back",
        permission=Permission.OPERATE,
    ),
    CommandSpec(name="status", help="show what this session and the gateway are doing"),
    CommandSpec(
        name="steer",
        topic=CommandTopic.WORK,
        arguments="TEXT",
        is_message=True,
        help="add to what the agent is working on, without interrupting it",
    ),
    CommandSpec(
        name="stop",
        topic=CommandTopic.WORK,
        arguments="[all]",
        help="stop what runs, and drop what waits behind it; all: also what is in the background",
        strict=False,  # who says "/stop please" means it
        outlives_restart=False,  # what it was to stop died with the process it was typed to
    ),
    CommandSpec(
        name="title",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[TEXT]",
        help="show what this conversation is called, or call it something else",
    ),
    CommandSpec(
        name="undo",
        topic=CommandTopic.CONVERSATIONS,
        arguments="[N]",
        help="take back the last exchange, or the last N",
        allowed_mid_turn=False,
    ),
    CommandSpec(name="usage", help="show how many tokens were used, here and in all"),
)


class MenuEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A command as a platform's menu shows it."""

    name: str
    help: str


def command_menu(permission: Permission = Permission.TALK) -> tuple[MenuEntry, ...]:
    """What a platform may offer whom it cannot tell apart: the names, without slash or alias."""
    return tuple(
        MenuEntry(name=spec.name, help=spec.help)
        for spec in COMMANDS
        if permission is Permission.OPERATE or spec.permission is Permission.TALK
    )


def index_commands(table: Iterable[CommandSpec]) -> Mapping[str, CommandSpec]:
    """Each command by every name it answers to."""
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
    """The command, with its argument, that a plain word stands for where something was asked."""
    return _COMMAND_WORDS.get(text.strip().rstrip(".!").lower()) if len(text) < 16 else None


def parse_command(text: str) -> tuple[str, str] | None:
    """Name and argument, or None where the text is no command (a path begins with / too)."""
    match = _PATTERN.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None


def text_for_agent(text: str) -> str | None:
    """The words of a text that reach the agent; None: it is for the gateway alone."""
    parsed = parse_command(text)
    if parsed is None:
        return text
    name, argument = parsed
    spec = COMMANDS_BY_NAME.get(name)
    return argument if spec is not None and spec.is_message and argument else None


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command as it was typed, by whom, and in which session, if its route has one."""

    row: InboxRow
    argument: str
    session_id: SessionId | None
    late: bool = False  # it was typed before this start
    route_target: RouteTarget | None = None  # the session of its route, as its commit found it
    running: tuple[InboxId, ...] = ()  # the commands that run now, itself among them
