"""The settings that apply now, and the components that are notified when they change."""

from collections.abc import Callable

from holdfast.core.config.settings import Settings
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.source import Source

SettingsSubscriber = Callable[[Settings], None]


class LiveSettings:
    """Owns the current settings. They are replaced in one step of the event loop, without an await,
    so every reader has the old ones or the new ones, never some of each.

    Most components read `current` when they need a value. One that has derived something from the
    settings subscribes. A turn reads them once, when it begins.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self._subscribers: list[SettingsSubscriber] = []

    def subscribe(self, *subscribers: SettingsSubscriber) -> None:
        """Call these with the next settings, in this order."""
        self._subscribers += subscribers

    def apply(self, settings: Settings) -> None:
        self.current = settings
        for subscriber in self._subscribers:
            subscriber(settings)

    def busy_mode(self, source: Source) -> BusyMode:
        """What a message from there does to a running turn, if it does not say so itself."""
        account = self.current.account(source.platform, source.account)
        own = account.busy_mode if account else None
        return own or self.current.gateway.busy_mode
