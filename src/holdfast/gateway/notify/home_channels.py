"""Home channels: the chat of each account where people are told about the gateway itself."""

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.library import Library
from holdfast.core.ports.protocols import Platform
from holdfast.core.turns.stop import HomeChannel
from holdfast.gateway.accounts.registry import Doors, spelled
from holdfast.gateway.live_settings import InForce


class Homes:
    """Owns which chat is home: what /sethome said of an account, else what the configuration
    says. A copy of what the store has, so that status asks nobody for it."""

    def __init__(self, in_force: InForce, doors: Doors, *, library: Library) -> None:
        self._in_force = in_force
        self._doors = doors
        self._library = library
        self._set: dict[tuple[str, str], HomeChannel] = {}

    @property
    def _configured(self) -> dict[tuple[str, str], HomeChannel]:
        settings = self._in_force.settings
        return {
            (door.name, door.account): _configured(wanted.home, door)
            for door in self._doors
            if (wanted := settings.account(door.name, door.account)) is not None and wanted.home
        }

    async def load(self) -> None:
        self._set = {_account(home.address): home for home in await self._library.homes()}

    def all(self) -> list[HomeChannel]:
        return list((self._configured | self._set).values())

    def put(self, home: HomeChannel) -> None:
        """Somebody has set it, and the store has it."""
        self._set[_account(home.address)] = home

    def drop(self, address: Address) -> None:
        """What somebody set for this account holds no more: the configuration's does again."""
        self._set.pop(_account(address), None)

    def configured(self, address: Address) -> HomeChannel | None:
        """What holds for its account while nobody has set anything."""
        return self._configured.get(_account(address))


def shown(address: Address) -> str:
    """A place as people write it in the configuration."""
    return f"{address.chat_id}/{address.thread_id}" if address.thread_id else address.chat_id


def _configured(home: str, door: Platform) -> HomeChannel:
    chat, _, thread = home.partition("/")
    address = Address(
        platform=door.name,
        account=door.account,
        chat_id=spelled(door, chat),
        thread_id=thread or None,
    )
    return HomeChannel(address=address)


def _account(address: Address) -> tuple[str, str]:
    return address.platform, address.account
