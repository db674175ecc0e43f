"""Home channels: the chat of each account that gets notices about the gateway."""

from holdfast.core.messages.outbox import Address
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import ListHomeChannels
from holdfast.core.turns.stop import HomeChannel
from holdfast.gateway.accounts.registry import PlatformRegistry, normalise_chat_id
from holdfast.gateway.live_settings import LiveSettings


class HomeChannels:
    """Owns the home channel of each account: set by /sethome, else by the configuration. A copy of
    the stored data, so that the status needs no read."""

    def __init__(
        self, live_settings: LiveSettings, platforms: PlatformRegistry, *, reads: StoreReader
    ) -> None:
        self._live_settings = live_settings
        self._platforms = platforms
        self._reads = reads
        self._set_by_command: dict[tuple[str, str], HomeChannel] = {}

    @property
    def _from_config(self) -> dict[tuple[str, str], HomeChannel]:
        settings = self._live_settings.current
        return {
            (platform.name, platform.account): _configured_channel(account.home, platform)
            for platform in self._platforms
            if (account := settings.account(platform.name, platform.account)) is not None
            and account.home
        }

    async def load(self) -> None:
        self._set_by_command = {
            _account_key(home.address): home for home in await self._reads.read(ListHomeChannels())
        }

    def all(self) -> list[HomeChannel]:
        return list((self._from_config | self._set_by_command).values())

    def set_home(self, home: HomeChannel) -> None:
        """/sethome has set it, and the store has it."""
        self._set_by_command[_account_key(home.address)] = home

    def unset_home(self, address: Address) -> None:
        """Forget what /sethome has set for this account; the configuration applies again."""
        self._set_by_command.pop(_account_key(address), None)

    def configured(self, address: Address) -> HomeChannel | None:
        """The home channel that the configuration sets for its account."""
        return self._from_config.get(_account_key(address))


def format_chat_and_thread(address: Address) -> str:
    """A chat and thread as in the configuration."""
    return f"{address.chat_id}/{address.thread_id}" if address.thread_id else address.chat_id


def _configured_channel(home: str, platform: Platform) -> HomeChannel:
    chat, _, thread = home.partition("/")
    address = Address(
        platform=platform.name,
        account=platform.account,
        chat_id=normalise_chat_id(platform, chat),
        thread_id=thread or None,
    )
    return HomeChannel(address=address)


def _account_key(address: Address) -> tuple[str, str]:
    return address.platform, address.account
