"""/sethome: make this chat the one that is told about the gateway itself, or no longer."""

from collections.abc import Awaitable

import msgspec

from holdfast.core.config.settings import table_of
from holdfast.core.messages.outbox import Address
from holdfast.core.people.commands import BY_NAME
from holdfast.core.turns.stop import HomeChannel
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.notify.home_channels import Homes, shown
from holdfast.gateway.outbound.replies import address_of
from holdfast.gateway.services import House

OFF = "off"
_HERE = (
    "This chat is the home channel of {account} now: it is told when the gateway stops, restarts "
    "and is back. /sethome off ends that."
)
_SILENT = " Nothing is told yet: {table}.restart_notices is off."
_QUIET = " Nothing is told yet: it is to be quiet here. /quiet off ends that."
_NONE = "{account} has no home channel now: /sethome in a chat makes it one."
_CONFIGURED = (
    "The home channel of {account} is {place} now, as {table}.home says; take that out of "
    "the configuration to have none."
)
_FETCHED = (
    "This chat cannot be a home channel: nothing is sent here by itself. Say /sethome in a chat "
    "of a platform that brings messages."
)


class SetHome:
    name = "sethome"

    def __init__(self, house: House, homes: Homes) -> None:
        self._house = house
        self._homes = homes

    def begin(self, asked: Asked) -> Awaitable[None]:
        word, here = asked.argument.lower(), _here(asked)
        if word == OFF:
            return self._clear(asked, here)
        if word:
            wrong = BY_NAME[self.name].misused(f"/sethome knows no {asked.argument!r}.")
            return answer(self._house, asked.row, wrong)
        if self._house.doors.capabilities(here).fetchable:
            return answer(self._house, asked.row, _FETCHED)
        return self._set(asked, here)

    async def _set(self, asked: Asked, here: Address) -> None:
        wanted = self._house.settings.account(here.platform, here.account)
        silent = wanted is not None and not wanted.restart_notices
        text = _HERE.format(account=_account(here))
        quiet = self._house.quiet.in_chat(here.platform, here.account, here.chat_id)
        table = table_of(here.platform, here.account)
        text += _QUIET if quiet else ""
        text += _SILENT.format(table=table) if silent and not quiet else ""
        home = HomeChannel(address=here, set_by=asked.row.principal, at=self._house.clock.now())
        effect = prepare(self._house, asked.row, text, home=home)
        await settle(self._house, effect, kept=lambda _: self._homes.put(home))

    async def _clear(self, asked: Asked, here: Address) -> None:
        effect = prepare(self._house, asked.row, self._without(here), no_home=here)
        await settle(self._house, effect, kept=lambda _: self._homes.drop(here))

    def _without(self, here: Address) -> str:
        configured = self._homes.configured(here)
        if configured is None:
            return _NONE.format(account=_account(here))
        place = shown(configured.address)
        return _CONFIGURED.format(
            account=_account(here), table=table_of(here.platform, here.account), place=place
        )


def _here(asked: Asked) -> Address:
    return msgspec.structs.replace(address_of(asked.row), reply_to=None)


def _account(address: Address) -> str:
    usual = address.account == "default"
    return address.platform if usual else f"{address.platform}:{address.account}"
