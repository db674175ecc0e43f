"""Verifies the signature of a posted request, and signs our own."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.plugin import HookSettings, SignatureScheme

_BASE64_PREFIX = "whsec_"  # of a key that is encoded in base64
_MAX_TIME_DIGITS = 16  # digits


class InvalidSignature(HoldfastError):
    """The post is not signed with the secret. The text tells an unknown sender nothing."""


class SignatureExpired(HoldfastError):
    """The post is signed, but for another time: a replay, or a wrong clock."""


def signing_key(secret: Secret) -> bytes:
    """The key of a secret: base64 if its prefix says so, otherwise the secret as it is."""
    value = secret.reveal()
    if value.startswith(_BASE64_PREFIX):
        try:
            key = base64.b64decode(value.removeprefix(_BASE64_PREFIX), validate=True)
        except binascii.Error:
            key = b""
        if key:  # an empty key would accept any sender
            return key
    return value.encode()


def standard_headers(
    secret: Secret, *, message_id: str, timestamp: float, body: bytes
) -> dict[str, str]:
    """The headers of our own posts: https://www.standardwebhooks.com."""
    time = str(int(timestamp))
    signature = _base64(_hmac(signing_key(secret), f"{message_id}.{time}.", body))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": time,
        "webhook-signature": f"v1,{signature}",
    }


class SignatureVerifier:
    """Verifies the posts of one hook; stateless."""

    def __init__(self, hook: HookSettings, secret: Secret, *, clock: Clock) -> None:
        self._hook = hook
        self._secret = secret
        self._clock = clock
        self._expected: Callable[[Mapping[str, str], str, bytes], Iterator[str]] = {
            SignatureScheme.GITHUB: self._github,
            SignatureScheme.SLACK: self._slack,
            SignatureScheme.STRIPE: self._stripe,
            SignatureScheme.STANDARD: self._standard,
            SignatureScheme.BEARER: self._bearer,
        }[hook.scheme]

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raises `InvalidSignature`, or `SignatureExpired` if the signed time is too old."""
        given = headers.get(self._hook.signature_header, "").strip()
        time = self._signed_time(headers, given)
        offered = self._given_signatures(given)
        # Each is compared with each: while a secret is rotated, posts are signed with both.
        genuine = [
            one
            for right in self._expected(headers, time, body)
            for one in offered
            if Secret(right).matches(one)
        ]
        if not genuine:
            raise InvalidSignature(
                "this hook accepts signed posts only, and this one is not signed with its secret"
            )
        self._check_time(time)

    def _given_signatures(self, given: str) -> list[str]:
        match self._hook.scheme:
            case SignatureScheme.STRIPE:
                return [one for one in given.split(",") if one.startswith("v1=")]
            case SignatureScheme.STANDARD:
                return given.split()
        return [given]

    def _signed_time(self, headers: Mapping[str, str], given: str) -> str:
        """The signed timestamp as it is written; "" if this scheme has none."""
        if self._hook.scheme is SignatureScheme.STRIPE:
            times = (one.strip() for one in given.split(","))
            return next((one[2:] for one in times if one.startswith("t=")), "none")
        if self._hook.scheme in (SignatureScheme.SLACK, SignatureScheme.STANDARD):
            return headers.get(self._hook.time_header, "none")
        return ""

    def _check_time(self, time: str) -> None:
        if not time:
            return
        known = time.isascii() and time.isdigit() and len(time) < _MAX_TIME_DIGITS
        if not known or abs(self._clock.now() - int(time)) > self._hook.window:
            raise SignatureExpired(
                "the signed time differs from now by more than {window:.0f} s: post it "
                "again, and check the clocks",
                window=self._hook.window,
            )

    def _github(self, headers: Mapping[str, str], time: str, body: bytes) -> Iterator[str]:
        """https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries; others
        use the same without the prefix, or in base64."""
        digest = _hmac(self._secret.reveal().encode(), "", body)
        yield f"sha256={digest.hex()}"
        yield digest.hex()
        yield _base64(digest)

    def _slack(self, headers: Mapping[str, str], time: str, body: bytes) -> Iterator[str]:
        """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
        yield f"v0={_hmac(self._secret.reveal().encode(), f'v0:{time}:', body).hex()}"

    def _stripe(self, headers: Mapping[str, str], time: str, body: bytes) -> Iterator[str]:
        """https://docs.stripe.com/webhooks#verify-manually: its keys also begin with whsec_, and
        are used as they are."""
        yield f"v1={_hmac(self._secret.reveal().encode(), f'{time}.', body).hex()}"

    def _standard(self, headers: Mapping[str, str], time: str, body: bytes) -> Iterator[str]:
        """https://www.standardwebhooks.com"""
        name = headers.get(self._hook.id_header, "")
        if name:  # it identifies deliveries, so it is required
            yield f"v1,{_base64(_hmac(signing_key(self._secret), f'{name}.{time}.', body))}"

    def _bearer(self, headers: Mapping[str, str], time: str, body: bytes) -> Iterator[str]:
        usual = self._hook.signature_header.lower() == "authorization"
        yield f"Bearer {self._secret.reveal()}" if usual else self._secret.reveal()


def _hmac(key: bytes, prefix: str, body: bytes) -> bytes:
    # A header may contain bytes that are not text; they are signed as received.
    head = prefix.encode("utf-8", "surrogateescape")
    return hmac.new(key, head + body, hashlib.sha256).digest()


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
