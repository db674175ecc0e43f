"""Tests signatures with the examples that vendors document."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from slack_sdk.signature import SignatureVerifier as SlackVerifier
from tests.support.gateway_harness import ManualClock

from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.plugin import HookSettings, SignatureScheme
from holdfast.platforms.webhook.signatures import (
    InvalidSignature,
    SignatureExpired,
    SignatureVerifier,
    standard_headers,
)

# https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
GITHUB = {
    "secret": "It's a Secret to Everybody",
    "body": b"Hello, World!",
    "signature": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
}
# https://docs.slack.dev/authentication/verifying-requests-from-slack
SLACK_SECRET, SLACK_AT = "8f742231b10e8888abcd99yyyzzz85a5", 1531420618
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
# https://docs.svix.com/receiving/verifying-payloads/how-manual
SVIX_SECRET, SVIX_AT = "whsec_" + "plJ3nmyCDGBKInavdOK15jsl", 1731705121
SVIX_BODY = b'{"event_type":"ping","data":{"success":true}}'
SVIX = {
    "svix-id": "msg_loFOjxBNrRLzqYUf",
    "svix-timestamp": str(SVIX_AT),
    "svix-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
}


def verifier(
    scheme: SignatureScheme, secret: str, *, now: float = 0.0, **settings: Any
) -> SignatureVerifier:
    hook = HookSettings(secret="env:X", scheme=scheme, **settings)
    return SignatureVerifier(hook, Secret(secret), clock=ManualClock(now))


def is_signed(one: SignatureVerifier, headers: dict[str, str], body: bytes) -> bool:
    try:
        one.verify(headers, body)
    except InvalidSignature:
        return False
    return True


def test_the_signature_that_github_documents_is_valid_and_no_other() -> None:
    one = verifier(SignatureScheme.GITHUB, str(GITHUB["secret"]))
    header = {"X-Hub-Signature-256": str(GITHUB["signature"])}
    assert is_signed(one, header, b"Hello, World!")
    assert not is_signed(one, header, b"Hello, World?")
    assert not is_signed(one, {}, b"Hello, World!")
    assert not is_signed(verifier(SignatureScheme.GITHUB, "another"), header, b"Hello, World!")


@pytest.mark.parametrize(
    "written",
    [
        "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=",
    ],
)
def test_other_header_names_and_encodings_are_accepted(written: str) -> None:
    one = verifier(SignatureScheme.GITHUB, str(GITHUB["secret"]), header="X-Gitea-Signature")
    assert is_signed(one, {"X-Gitea-Signature": written}, b"Hello, World!")


def test_the_signature_that_slack_documents_is_valid_within_its_window() -> None:
    """The vendor's own library agrees on what is signed."""
    headers = {
        "X-Slack-Request-Timestamp": str(SLACK_AT),
        "X-Slack-Signature": SLACK_SIGNATURE,
    }
    vendor = SlackVerifier(SLACK_SECRET)
    body = SLACK_BODY.decode()
    made = vendor.generate_signature(timestamp=str(SLACK_AT), body=body)
    assert made == SLACK_SIGNATURE
    verifier(SignatureScheme.SLACK, SLACK_SECRET, now=SLACK_AT + 299).verify(headers, SLACK_BODY)
    verifier(SignatureScheme.SLACK, SLACK_SECRET, now=SLACK_AT - 299).verify(headers, SLACK_BODY)
    for now in (SLACK_AT + 301, SLACK_AT - 301):
        with pytest.raises(SignatureExpired):
            verifier(SignatureScheme.SLACK, SLACK_SECRET, now=now).verify(headers, SLACK_BODY)


def test_a_changed_timestamp_invalidates_the_signature() -> None:
    """Otherwise a copied post could be sent again at any time."""
    later = SLACK_AT + 1000
    headers = {"X-Slack-Request-Timestamp": str(later), "X-Slack-Signature": SLACK_SIGNATURE}
    assert not is_signed(
        verifier(SignatureScheme.SLACK, SLACK_SECRET, now=later), headers, SLACK_BODY
    )


def test_the_signature_that_svix_documents_is_valid_and_is_the_one_we_create() -> None:
    one = verifier(SignatureScheme.STANDARD, SVIX_SECRET, now=SVIX_AT, header="svix-signature")
    one.verify(SVIX, SVIX_BODY)
    assert not is_signed(one, {**SVIX, "svix-id": "msg_another"}, SVIX_BODY)
    assert not is_signed(one, {**SVIX, "svix-id": ""}, SVIX_BODY)
    ours = standard_headers(
        Secret(SVIX_SECRET), message_id=SVIX["svix-id"], timestamp=SVIX_AT + 0.7, body=SVIX_BODY
    )
    assert list(ours.values()) == list(SVIX.values())


def test_a_secret_that_is_not_base64_is_used_as_it_is() -> None:
    """With an empty key, a sender that knows no secret could sign."""
    headers = standard_headers(Secret("whsec_"), message_id="msg_1", timestamp=SVIX_AT, body=b"{}")
    empty = hmac.new(b"", f"msg_1.{SVIX_AT}.{{}}".encode(), hashlib.sha256).digest()
    forged = {**headers, "webhook-signature": f"v1,{base64.b64encode(empty).decode()}"}
    one = verifier(SignatureScheme.STANDARD, "whsec_", now=SVIX_AT)
    assert is_signed(one, headers, b"{}")
    assert not is_signed(one, forged, b"{}")


def test_a_request_signed_with_two_secrets_is_valid() -> None:
    both = {**SVIX, "svix-signature": f"v1,bm90aGluZw== {SVIX['svix-signature']}"}
    verifier(SignatureScheme.STANDARD, SVIX_SECRET, now=SVIX_AT, header="svix-signature").verify(
        both, SVIX_BODY
    )


def test_a_stripe_header_has_a_timestamp_and_any_number_of_signatures() -> None:
    """https://docs.stripe.com/webhooks#verify-manually: the key is taken as it is written."""
    digest = "53ab47653fdef7b7c1764c3b3a7ee6a6a0f6f1ed4b5a1d59d4ed2e8ff1eb0fa7"
    one = verifier(SignatureScheme.STRIPE, "whsec_test", now=1492774577)
    made = stripe_signature("whsec_test", "1492774577", b"{}")
    one.verify({"Stripe-Signature": f"t=1492774577,v1={digest},v1={made},v0=x"}, b"{}")
    assert not is_signed(one, {"Stripe-Signature": f"t=1492774577,v0={made}"}, b"{}")
    assert not is_signed(one, {"Stripe-Signature": f"t=1492774578,v1={made}"}, b"{}")
    assert not is_signed(one, {"Stripe-Signature": f"v1={made}"}, b"{}")


def stripe_signature(secret: str, at: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def test_a_token_is_a_bearer_token_or_in_its_own_header() -> None:
    bearer = verifier(SignatureScheme.BEARER, "the token")
    assert is_signed(bearer, {"Authorization": "Bearer the token"}, b"")
    assert not is_signed(bearer, {"Authorization": "the token"}, b"")
    assert not is_signed(bearer, {}, b"")
    gitlab = verifier(SignatureScheme.BEARER, "the token", header="X-Gitlab-Token")
    assert is_signed(gitlab, {"X-Gitlab-Token": "the token"}, b"")
    assert not is_signed(gitlab, {"X-Gitlab-Token": "\udcff"}, b"")
