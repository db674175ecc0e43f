"""/sethome: make this chat the one that is told about the gateway itself, or no longer."""

from collections.abc import Awaitable

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.messages.outbox import Address
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.core.turns.stop import HomeChannel
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.notify.home_channels import HomeChannels, format_chat_and_thread
from holdfast.gateway.outbound.replies import reply_address
from holdfast.gateway.services import Services

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
        wanted = self._services.settings.account(here.platform, here.account)
        silent = wanted is not None and not wanted.restart_notices
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
        effect = prepare_effect(self._services, request.row, self._unset_text(here), no_home=here)
        await commit_effect(
            self._services, effect, on_committed=lambda _: self._home_channels.unset_home(here)
        )

    def _unset_text(self, here: Address) -> str:
        configured = self._home_channels.configured(here)
        if configured is None:
            return _NO_HOME.format(account=_account_name(here))
        place = format_chat_and_thread(configured.address)
        return _HOME_CONFIGURED.format(
            account=_account_name(here),
            table=account_table(here.platform, here.account),
            place=place,
        )


def _here(request: CommandRequest) -> Address:
    return msgspec.structs.replace(reply_address(request.row), reply_to=None)


def _account_name(address: Address) -> str:
    usual = address.account == "default"
    return address.platform if usual else f"{address.platform}:{address.account}"
