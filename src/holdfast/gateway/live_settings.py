"""In force: the settings that hold now, and those who have to hear when others take their place."""

from collections.abc import Callable

from holdfast.core.config.settings import Settings

Follower = Callable[[Settings], None]


class InForce:
    """Owns which settings hold. To put others into force is one step of the event loop, without
    an await: whoever looks has the old ones or the new ones, and never some of each.

    Most read `settings` when they need them. Who has made something of them follows instead. What
    a turn is run by, it takes once, when it begins.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._followers: list[Follower] = []

    def tell(self, *followers: Follower) -> None:
        """To be told of the next ones, in this order."""
        self._followers += followers

    def put(self, settings: Settings) -> None:
        self.settings = settings
        for follower in self._followers:
            follower(settings)
