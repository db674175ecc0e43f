"""Commands that choose settings of a session, chat or account: /model, /busy, /quiet, /sethome."""

from collections.abc import Awaitable, Mapping

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.config.settings import account_table
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import Address, QuietChat
from holdfast.core.ports.store_queries import GetBusyMode, GetSession
from holdfast.core.turns.stop import HomeChannel
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.notify.home_channels import HomeChannels, format_chat_and_thread
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore

DEFAULT = "default"


class ModelCommand:
    """/model: show which model answers here, or choose another for this session."""

    name = "model"

    def __init__(self, services: Services, sessions: SessionStore) -> None:
        self._services = services
        self._sessions = sessions

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._choose(request) if request.argument else self._show(request)

    async def _show(self, request: CommandRequest) -> None:
        row = (
            await self._services.store.read(GetSession(session_id=request.session_id))
            if request.session_id
            else None
        )
        chosen = row.model_override if row else None
        model = self._services.agent_factory.model
        found = f"{model.name} ({model.provider}): {model.why}"
        text = f"{chosen} (chosen here)" if chosen else found
        await send_reply(self._services, request.row, f"The model is {text}.")

    async def _choose(self, request: CommandRequest) -> None:
        services, name = self._services, request.argument
        default = name.lower() == DEFAULT
        model = services.agent_factory.model_name if default else name
        session_id = request.session_id or SessionId(services.new_id("s"))
        await send_reply(
            services,
            request.row,
            f"From the next message on, {model} answers.",
            session_id=session_id,
            route=request.row.route,
            reset=self._sessions.reset_for(request),
            model_override="" if default else name,
        )
        services.cache.drop(session_id)


_MEANINGS: Mapping[BusyMode, str] = {
    BusyMode.INTERRUPT: "a new message interrupts it, and both are answered together",
    BusyMode.QUEUE: "a new message waits, and is answered after it",
    BusyMode.STEER: "a new message reaches it at its next step",
}


class BusyCommand:
    """/busy: show what a message does to a running turn, or choose it for this session."""

    name = "busy"

    def __init__(self, services: Services, sessions: SessionStore) -> None:
        self._services = services
        self._sessions = sessions

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        word = request.argument.lower()
        if not word:
            return self._show(request)
        if word == DEFAULT:
            return self._choose(request, None)
        if word in _MEANINGS:
            return self._choose(request, BusyMode(word))
        spec = COMMANDS_BY_NAME[self.name]
        return send_reply(
            self._services, request.row, spec.usage_error(f"There is no mode {request.argument!r}.")
        )

    async def _show(self, request: CommandRequest) -> None:
        session_id = request.session_id
        chosen = (
            await self._services.store.read(GetBusyMode(session_id=session_id))
            if session_id
            else None
        )
        await send_reply(self._services, request.row, self._text(request, chosen))

    async def _choose(self, request: CommandRequest, mode: BusyMode | None) -> None:
        session_id = request.session_id or SessionId(self._services.new_id("s"))
        await send_reply(
            self._services,
            request.row,
            self._text(request, mode),
            session_id=session_id,
            route=request.row.route,
            reset=self._sessions.reset_for(request),
            busy_mode="" if mode is None else mode.value,
        )

    def _text(self, request: CommandRequest, chosen: BusyMode | None) -> str:
        mode = chosen or self._services.busy_mode(request.row.inbound.source)
        origin = "chosen here" if chosen else "the default"
        return f"While the agent works, {_MEANINGS[mode]} ({mode}, {origin})."


_QUIET_WORDS: Mapping[str, bool | None] = {"on": True, "off": False, "default": None}
_QUIET_TEXT = "This chat gets answers, and nothing else"
_LOUD_TEXT = "This chat also shows what is being done, and is told when something has to wait"
_QUIET_FETCHED = "There is nothing to be quiet about: what is said here is fetched, and never sent."


class QuietCommand:
    """/quiet: show whether this chat gets replies only, or choose it."""

    name = "quiet"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        source, word = request.row.inbound.source, request.argument.lower()
        if self._services.platforms.capabilities_of(source.platform, source.account).fetchable:
            return send_reply(self._services, request.row, _QUIET_FETCHED)
        if not word:
            return send_reply(self._services, request.row, self._text(request))
        if word in _QUIET_WORDS:
            return self._choose(request, _QUIET_WORDS[word])
        wrong = COMMANDS_BY_NAME[self.name].usage_error(f"/quiet knows no {request.argument!r}.")
        return send_reply(self._services, request.row, wrong)

    async def _choose(self, request: CommandRequest, quiet: bool | None) -> None:
        source = request.row.inbound.source
        chat = QuietChat(
            platform=source.platform,
            account=source.account,
            chat_id=source.chat_id,
            quiet=quiet,
            set_by=request.row.principal,
            at=self._services.clock.now(),
        )
        text = (
            "This chat is as it is configured." if quiet is None else f"{_quiet_state_text(quiet)}."
        )
        effect = prepare_effect(self._services, request.row, text, quiet=chat)
        await commit_effect(
            self._services,
            effect,
            on_committed=lambda _: self._services.quiet_chats.set_quiet(chat),
        )

    def _text(self, request: CommandRequest) -> str:
        source, quiet = request.row.inbound.source, self._services.quiet_chats
        origin = "chosen here" if quiet.is_set_by_command(source) else "as it is configured"
        return f"{_quiet_state_text(quiet.is_quiet(source))} ({origin})."


def _quiet_state_text(quiet: bool) -> str:
    return _QUIET_TEXT if quiet else _LOUD_TEXT


SETHOME_OFF = "off"
_HOME_SET = (
    "This chat is the home channel of {account} now: it is told when the gateway stops, restarts "
    "and is back. /sethome off ends that."
)
_HOME_SILENT = " Nothing is told yet: {table}.restart_notices is off."
_HOME_QUIET = " Nothing is told yet: it is to be quiet here. /quiet off ends that."
_NO_HOME = "{account} has no home channel now: /sethome in a chat makes it one."
_HOME_CONFIGURED = (
    "The home channel of {account} is {place} now, as {table}.home says; take that out of "
    "the configuration to have none."
)
_HOME_FETCHED = (
    "This chat cannot be a home channel: nothing is sent here by itself. Say /sethome in a chat "
    "of a platform that brings messages."
)


class SetHomeCommand:
    """/sethome: make this chat the home channel, which gets notices about the gateway; or not."""

    name = "sethome"

    def __init__(self, services: Services, home_channels: HomeChannels) -> None:
        self._services = services
        self._home_channels = home_channels

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        word, here = request.argument.lower(), _here(request)
        if word == SETHOME_OFF:
            return self._clear(request, here)
        if word:
            wrong = COMMANDS_BY_NAME[self.name].usage_error(
                f"/sethome knows no {request.argument!r}."
            )
            return send_reply(self._services, request.row, wrong)
        if self._services.platforms.capabilities(here).fetchable:
            return send_reply(self._services, request.row, _HOME_FETCHED)
        return self._set(request, here)

    async def _set(self, request: CommandRequest, here: Address) -> None:
        account = self._services.settings.account(here.platform, here.account)
        silent = account is not None and not account.restart_notices
        text = _HOME_SET.format(account=_account_name(here))
        quiet = self._services.quiet_chats.is_quiet_chat(here.platform, here.account, here.chat_id)
        table = account_table(here.platform, here.account)
        text += _HOME_QUIET if quiet else ""
        text += _HOME_SILENT.format(table=table) if silent and not quiet else ""
        home = HomeChannel(
            address=here, set_by=request.row.principal, at=self._services.clock.now()
        )
        effect = prepare_effect(self._services, request.row, text, home=home)
        await commit_effect(
            self._services, effect, on_committed=lambda _: self._home_channels.set_home(home)
        )

    async def _clear(self, request: CommandRequest, here: Address) -> None:
        effect = prepare_effect(
            self._services, request.row, self._unset_text(here), unset_home=here
        )
        await commit_effect(
            self._services, effect, on_committed=lambda _: self._home_channels.unset_home(here)
        )

    def _unset_text(self, here: Address) -> str:
        configured = self._home_channels.configured(here)
        if configured is None:
            return _NO_HOME.format(account=_account_name(here))
        chat = format_chat_and_thread(configured.address)
        return _HOME_CONFIGURED.format(
            account=_account_name(here),
            table=account_table(here.platform, here.account),
            place=chat,
        )


def _here(request: CommandRequest) -> Address:
    return msgspec.structs.replace(reply_address(request.row), reply_to=None)


def _account_name(address: Address) -> str:
    usual = address.account == "default"
    return address.platform if usual else f"{address.platform}:{address.account}"
