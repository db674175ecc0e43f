"""Decides whether an inbound message is accepted.

`GroupPolicy`: is it addressed to the agent, and is it a loop? `InboundPolicy`: that, and then
whether its sender may talk.
"""

from collections.abc import Iterator

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME, parse_command
from holdfast.core.config.settings import ChatSettings, GroupReplyMode, Settings
from holdfast.core.errors import NotAddressed, NotAllowed
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.api_tokens import is_client
from holdfast.core.ports.runtime import Clock
from holdfast.core.text.translation import _, use_catalogue
from holdfast.gateway.access import AccessPolicy, Action, Principal, principal_of
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.inbound.pairing import PairingRequests

MAX_IN_A_ROW = 50  # messages of one person that are answered while no other person writes
LOOP_RESET_AFTER = 600.0  # seconds of silence that reset the count
_ANY_BOT = ""  # all bots count as one speaker
_MAX_CHATS = 10_000  # chats with a count; the one that is silent longest is evicted

_DEFAULT_CHAT = ChatSettings()
_LOOP_REASON = "so many messages in a row that the sender may be a program"


def _loop_notice() -> str:
    return _(
        "I have answered {answered} messages in a row from one sender here, so I stop: it may be "
        "a program that answers me. I will answer again when someone else writes, or after "
        "{minutes} minutes of silence."
    ).format(answered=MAX_IN_A_ROW, minutes=f"{LOOP_RESET_AFTER / 60:.0f}")


class LoopDetected(NotAddressed):
    """This message and those after it are not answered: a program may be answering us."""


class _Streak(msgspec.Struct, kw_only=True):
    """The last messages of one speaker in a chat, with no other speaker in between."""

    speaker: str
    count: int = 0  # of accepted messages
    notified: bool = False  # the chat was told why there are no more answers
    at: float = 0.0


class GroupPolicy:
    """Owns how many messages of one speaker were answered in a row, by chat. The counts are lost
    with the process: a loop that continues after a restart is detected again."""

    def __init__(self, settings: Settings) -> None:
        self._streaks: dict[tuple[str, str, str], _Streak] = {}
        self.apply_settings(settings)

    def apply_settings(self, settings: Settings) -> None:
        """Apply the settings of the chats; the counts are kept."""
        self._chats: dict[tuple[str, str, str], ChatSettings] = dict(_configured_chats(settings))

    def check(self, inbound: Inbound, *, now: float) -> None:
        """Returns if the message is addressed to the agent. Raises `NotAddressed` if not, and
        `LoopDetected` in a loop, until the chat was told.

        Nothing is counted here: a message that cannot be stored at the moment is delivered again
        and again, but counts as one."""
        source = inbound.source
        if source.author is Author.SELF:
            raise NotAddressed("The message was written by this account itself.")
        chat = self._chats.get(_chat_key(source), _DEFAULT_CHAT)
        row = self._streak(source, now)
        if source.chat_type is not ChatType.DM and not is_addressed(inbound, chat.answers):
            raise NotAddressed("The message is not addressed to the agent.")
        bot = source.author is Author.BOT
        most = chat.bots if bot else MAX_IN_A_ROW
        if row.count < most:
            return
        found = NotAddressed if bot or row.notified else LoopDetected
        raise found("{count} messages of one sender were answered in a row.", count=most)

    def record_accepted(self, source: Source, *, now: float) -> None:
        """A message from there was accepted, and will be answered."""
        row = self._streak(source, now)
        row.count, row.at = row.count + 1, now

    def record_loop_notice(self, source: Source, *, now: float) -> None:
        """The chat was notified why there are no more answers."""
        row = self._streak(source, now)
        row.notified, row.at = True, now

    def _streak(self, source: Source, now: float) -> _Streak:
        chat = _chat_key(source)
        speaker = _ANY_BOT if source.author is Author.BOT else source.user_id
        row = self._streaks.pop(chat, None)
        if row is None or row.speaker != speaker or not 0 <= now - row.at < LOOP_RESET_AFTER:
            row = _Streak(speaker=speaker, at=now)
        self._streaks[chat] = row  # at the end: the first was silent longest
        if len(self._streaks) > _MAX_CHATS:
            del self._streaks[next(iter(self._streaks))]
        return row


def _chat_key(source: Source) -> tuple[str, str, str]:
    return source.platform, source.account, source.chat_id


def is_addressed(inbound: Inbound, answers: GroupReplyMode) -> bool:
    """Whether a message in a group is for the agent. A command with a bot's name (`/stop@name`) is
    only if the platform says that the name is ours."""
    command = _command_name(inbound)
    if command is not None and "@" in command:
        return inbound.mentioned
    answered = inbound.quoted is not None and inbound.quoted.ours
    return (
        inbound.mentioned
        or answered
        or answers is GroupReplyMode.ALL
        or command in COMMANDS_BY_NAME
    )


def _command_name(inbound: Inbound) -> str | None:
    """The name of a command, with the name of the bot that it calls, if there is one."""
    parsed = parse_command(inbound.text) if inbound.commands else None
    if parsed is None:
        return None
    word = inbound.text.split(maxsplit=1)[0]
    return word if "@" in word else parsed[0]


def _configured_chats(settings: Settings) -> Iterator[tuple[tuple[str, str, str], ChatSettings]]:
    for name, account, each in settings.all_accounts():
        for chat_id, chat in each.chats.items():
            yield (name, account, chat_id), chat


class InboundPolicy:
    """Checks whether a message is addressed to the agent, and then whether its sender may talk."""

    def __init__(
        self,
        access: AccessPolicy,
        groups: GroupPolicy,
        pairing_requests: PairingRequests,
        *,
        languages: ChatLanguages,
        clock: Clock,
    ) -> None:
        self._access = access
        self._languages = languages
        self._groups = groups
        self._pairing_requests = pairing_requests
        self._clock = clock

    async def check(self, inbound: Inbound) -> PrincipalId:
        """The principal of the sender. Raises `NotAllowed`: notices to the sender are durable by
        then, and the message is to be acknowledged."""
        source = inbound.source
        self._languages.record(source)
        principal = principal_of(source)
        if _needs_group_check(source):
            await self._check_group(inbound, principal)
        if not self._access.allows(principal, Action.TALK, source):
            if not is_client(source.platform, source.user_id):  # a revoked token is not paired
                with use_catalogue(self._languages.of_source(source)):
                    await self._pairing_requests.handle_unknown_sender(inbound)
            self._access.authorise(principal, Action.TALK, source)
        return principal.id

    def may_talk(self, source: Source) -> bool:
        return self._access.allows(principal_of(source), Action.TALK, source)

    def record_accepted(self, source: Source) -> None:
        """A message from there is durable, and will be answered."""
        if _needs_group_check(source):
            self._groups.record_accepted(source, now=self._clock.now())

    def check_operator(self, inbound: Inbound) -> PrincipalId:
        """The principal of an operator who writes into a chat of other people. Raises
        `NotAllowed`."""
        principal = principal_of(inbound.source)
        self._access.authorise(principal, Action.OPERATE, inbound.source)
        return principal.id

    async def _check_group(self, inbound: Inbound, principal: Principal) -> None:
        if inbound.source.author is Author.OPERATOR:
            raise NotAllowed("A platform cannot send messages as the operator.")
        try:
            self._groups.check(inbound, now=self._clock.now())
        except LoopDetected:
            if self._access.allows(principal, Action.TALK, inbound.source):
                with use_catalogue(self._languages.of_source(inbound.source)):
                    notice = _loop_notice()
                await self._pairing_requests.refuse_with_notice(
                    inbound, notice, reason=_LOOP_REASON
                )
                self._groups.record_loop_notice(inbound.source, now=self._clock.now())
            raise


def _needs_group_check(source: Source) -> bool:
    """Whether the message may be for another recipient, or may come from a program."""
    return source.chat_type is not ChatType.DM or source.author is not Author.PERSON
