"""The settings that apply now, and the components that are notified when they change."""

from collections.abc import Callable

from holdfast.core.config.settings import Settings

SettingsSubscriber = Callable[[Settings], None]


class LiveSettings:
    """Owns which settings hold. To put others into force is one step of the event loop, without
    an await: whoever looks has the old ones or the new ones, and never some of each.

    Most read `settings` when they need them. Who has made something of them follows instead. What
    a turn is run by, it takes once, when it begins.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self._subscribers: list[SettingsSubscriber] = []

    def subscribe(self, *subscribers: SettingsSubscriber) -> None:
        """To be told of the next ones, in this order."""
        self._subscribers += subscribers

    def apply(self, settings: Settings) -> None:
        self.current = settings
        for follower in self._subscribers:
            follower(settings)
