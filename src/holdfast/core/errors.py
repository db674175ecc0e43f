"""Errors that a person reads: what failed, where, and what to do about it."""

import errno
import re
from typing import TYPE_CHECKING

from holdfast.core.text.translation import _

if TYPE_CHECKING:
    from holdfast.core.text.translatable import Translatable

_ERRNO = re.compile(r"\[Errno -?\d+\] ")
_CONNECT_FAILURES = {
    errno.ECONNREFUSED: "Connection refused",
    errno.ETIMEDOUT: "Connection timed out",
    errno.EHOSTUNREACH: "No route to host",
    errno.ENETUNREACH: "Network is unreachable",
}
# asyncio's own text, which does not say the reason.
_CONNECT_FAILED = re.compile(r"\[Errno (\d+)\] Connect call failed ")
# aiohttp's text: the host, how TLS is set up, and the text of the system's error.
_CANNOT_CONNECT = re.compile(
    r"Cannot connect to host (\S+) ssl:(?:default|True|False|None|<[^>]*>) "
    r"\[((?:[^\[\]]|\[[^\]]*\])*)\]"
)
_CALL_FAILED = re.compile(r"Connect call failed \(")


def without_errno(text: str) -> str:
    """The text of an error for a person: without the number of its cause, which `OSError` puts in
    front, and without how aiohttp would have set up TLS."""
    if "Cannot connect to host " in text:
        text = _CANNOT_CONNECT.sub(_cannot_connect, text)
    if "[Errno " not in text:
        return text
    return _ERRNO.sub("", _CONNECT_FAILED.sub(_connect_failure, text))


def _cannot_connect(found: re.Match[str]) -> str:
    host, reason = found.groups()
    # Without its number, the text does not say why.
    return f"Cannot connect to {host}" + ("" if _CALL_FAILED.match(reason) else f": {reason}")


def error_text(error: BaseException) -> str:
    """`str(error)`, with the reason of a failed connection: an error of aiohttp has the number of
    its cause, but not in its text."""
    text = str(error)
    found = _CANNOT_CONNECT.search(text)
    if found is None or not isinstance(error, OSError) or not _CALL_FAILED.match(found[2]):
        return text
    reason = _CONNECT_FAILURES.get(error.errno or 0)
    return text if reason is None else f"Cannot connect to {found[1]}: {reason}"


def _shown(value: object) -> object:
    """A value of a message. Only errors of failed connections are replaced by a text."""
    if isinstance(value, OSError) and (text := error_text(value)) != str(value):
        return text
    return value


def _connect_failure(found: re.Match[str]) -> str:
    return f"{_CONNECT_FAILURES.get(int(found[1]), 'Could not connect')} "


class HoldfastError(Exception):
    """Base class of all errors of Holdfast. The message is written for the person who reads it.

    Its values are passed by name, so that the message can be translated:

        raise ConfigError("{file}: unknown key {key!r}.", file=path, key=key)

    `str(error)` is English, for logs; `for_person` is in the language of the current context.
    """

    def __init__(self, message: str, /, **values: object) -> None:
        values = {name: _shown(value) for name, value in values.items()}
        super().__init__(without_errno(message.format_map(values) if values else message))
        self._template = message
        self._values = values

    def for_person(self) -> str:
        """The message in the language of the current context; errors among its values, too."""
        translated = _(self._template)
        values = {
            name: value.for_person() if isinstance(value, HoldfastError) else value
            for name, value in self._values.items()
        }
        return without_errno(translated.format_map(values) if values else translated)

    @property
    def text(self) -> "Translatable":
        """The message, to be translated after this error is gone."""
        return self._translatable(self._template)

    def _translatable(self, template: str) -> "Translatable":
        """A text with the values of this error."""
        # The help of the command line needs these classes, but not msgspec.
        from holdfast.core.text.translatable import Translatable  # noqa: PLC0415

        return Translatable(template, {name: _plain(each) for name, each in self._values.items()})


def _plain(value: object) -> "str | int | float | Translatable":
    if isinstance(value, HoldfastError) and type(value).for_person is HoldfastError.for_person:
        return value.text
    return value if isinstance(value, (int, float)) else without_errno(str(value))


class InvalidSettings(HoldfastError, ValueError):
    """Settings that contradict each other or lack one. Raised by the `__post_init__` of a struct of
    settings: a `ValueError`, so msgspec reports where in the document it occurred."""


class StoreError(HoldfastError):
    """The store could not do what was requested; nothing of it was written."""


class TransientStoreError(StoreError):
    """The disk is full or fails, or another program holds the file. Once that is fixed, the same
    write works, without a restart."""


class StoreUnusable(StoreError):
    """The file cannot be used: damaged, newer, of another program or read-only."""


class StoreDamaged(StoreUnusable):
    """The file is damaged. Only a person may replace it, with a backup or a recovered copy."""


class ModelError(HoldfastError):
    """A model call failed. `kind` says why; see `ModelFault`."""


class RunnerError(HoldfastError):
    """The runner could not be started or reached."""


class SendError(HoldfastError):
    """A message was not sent, or may not have been; the subclass says what is known."""


class NotConnected(SendError):
    """There is no connection; the message was not sent, and can be sent later."""


class Throttled(SendError):
    """The platform's rate limit applies; the message was not accepted. `whole_account`: for the
    whole account, not for this chat alone."""

    def __init__(
        self, message: str, *, retry_after: float, whole_account: bool = False, **values: object
    ) -> None:
        super().__init__(message, **values)
        self.retry_after = retry_after
        self.whole_account = whole_account


class SendRejected(SendError):
    """The platform will never accept this message."""


class EditRefused(SendRejected):
    """The message can never be edited again, for example because it was deleted or is too old. Its
    text may be sent as a new message."""


class FileTooLarge(SendRejected):
    """The platform accepts no file of this size from this account."""


class OutcomeUnknown(SendError):
    """The message was sent, but no receipt came back: it may have arrived."""


class ConnectError(HoldfastError):
    """An account is not connected to its platform. It is connected again with growing delays,
    unless this is a `ConnectRefused`."""


class ConnectRefused(ConnectError):
    """Another attempt would fail, too: a person has to fix something first. The text says what is
    wrong, `remedy` what to do; the values fill both."""

    def __init__(
        self, message: str, *, remedy: "str | Translatable" = "", **values: object
    ) -> None:
        super().__init__(message, **values)
        self.remedy = self._translatable(remedy) if isinstance(remedy, str) else remedy


class AccountInUse(ConnectError):
    """Another process is connected with the same credentials; `holder` names it if it is known, and
    is shown after the text. It is tried again: that process may end."""

    def __init__(self, message: str, *, holder: str = "", **values: object) -> None:
        super().__init__(message, **values)
        self.holder = holder


class AccountDisconnected(ConnectError):
    """The connection was lost."""


class IntakeClosed(HoldfastError):
    """The gateway accepts no messages at the moment; the sender must send it again."""


class RestartRefused(HoldfastError):
    """The gateway does not restart, for this reason; it keeps running."""


class NotAllowed(HoldfastError):
    """`AccessPolicy.authorise` refused."""


class NotAddressed(NotAllowed):
    """A message that is not for the agent, or must not be answered: it is acknowledged, and not
    stored."""


class InvalidTransition(HoldfastError):
    """There is no such transition of a state; this is a bug in the caller."""
