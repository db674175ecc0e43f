"""Errors that a person reads: what happened, where, and what to do about it."""

from holdfast.core.text.translation import _


class HoldfastError(Exception):
    """Base class of our errors. The message is written for the person who reads it.

    Its values are passed by name, so that the message can be translated:

        raise ConfigError("{file}: unknown key {key!r}.", file=path, key=key)

    `str(error)` is English, for logs; `for_person` is in the language of the current context.
    """

    def __init__(self, message: str, /, **values: object) -> None:
        super().__init__(message.format_map(values) if values else message)
        self._template = message
        self._values = values

    def for_person(self) -> str:
        """The message in the language of the current context; errors among its values, too."""
        translated = _(self._template)
        values = {
            name: value.for_person() if isinstance(value, HoldfastError) else value
            for name, value in self._values.items()
        }
        return translated.format_map(values) if values else translated


class StoreError(HoldfastError):
    """The store could not do what was asked; nothing of it was written."""


class TransientStoreError(StoreError):
    """The disk is full or fails, or another program holds the file: once a person has mended
    that, the same write works, without a restart."""


class StoreUnusable(StoreError):
    """The file itself is not one this program may write: damaged, newer, foreign or read-only."""


class StoreDamaged(StoreUnusable):
    """The file is not what was written. Only a person may replace it, by a backup or a recovered
    copy."""


class ModelError(HoldfastError):
    """A model call failed. `kind` says why; see `ModelFault`."""


class RunnerError(HoldfastError):
    """The runner could not be started or reached."""


class SendError(HoldfastError):
    """A platform did not take a message; the subclass says what is known of its fate."""


class NotConnected(SendError):
    """Nothing was written: the message is still ours to send."""


class Throttled(SendError):
    """The platform asks to wait; nothing was taken. `whole_account`: with whatever is sent there,
    and not in this chat alone."""

    def __init__(
        self, message: str, *, retry_after: float, whole_account: bool = False, **values: object
    ) -> None:
        super().__init__(message, **values)
        self.retry_after = retry_after
        self.whole_account = whole_account


class SendRejected(SendError):
    """The platform will never take this message."""


class OutcomeUnknown(SendError):
    """The message was written and no receipt came back: it may have arrived."""


class ConnectError(HoldfastError):
    """An account has no line to its platform. It is tried again by itself, later and later, unless
    it is a `ConnectRefused`."""


class ConnectRefused(ConnectError):
    """Trying again changes nothing: a person has to mend something first. The text says what is
    wrong; `remedy` what to do about it."""

    def __init__(self, message: str, *, remedy: str = "", **values: object) -> None:
        super().__init__(message, **values)
        self.remedy = remedy


class AccountInUse(ConnectError):
    """Somebody else is connected with the same credentials; `holder` says who, where that is
    known, and is shown behind the text. It is tried again: whoever holds it may go."""

    def __init__(self, message: str, *, holder: str = "", **values: object) -> None:
        super().__init__(message, **values)
        self.holder = holder


class AccountDisconnected(ConnectError):
    """The line was there, and is gone."""


class IntakeClosed(HoldfastError):
    """The gateway is not taking messages; nothing was accepted, so it is to be sent again."""


class RestartRefused(HoldfastError):
    """The gateway does not restart, for this reason; it goes on as it was."""


class NotAllowed(HoldfastError):
    """`authorise` said no."""


class NotAddressed(NotAllowed):
    """It was not said to the agent, or must not be answered: acknowledged, and kept nowhere."""


class InvalidTransition(HoldfastError):
    """A state has no such move; this is a bug in the caller."""
