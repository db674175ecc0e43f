"""Questions that the machine wants to have asked: about keys, of the homeserver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nio  # type: ignore[import-untyped]  # it has annotations, and does not say so

from holdfast.platforms.matrix.paths import api_path
from holdfast.platforms.matrix.wire import Json

_KEY_ALGORITHM = "signed_curve25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """`read` makes of the answer what the machine understands."""

    method: str
    path: str
    body: Json
    parse_answer: Callable[[Json], Any]


def key_upload(keys: Json) -> KeyRequest:
    return _key_request("upload", keys, nio.KeysUploadResponse.from_dict)


def key_query(users: set[str]) -> KeyRequest:
    everything: list[str] = []  # of their devices
    body = {"device_keys": dict.fromkeys(users, everything)}
    return _key_request("query", body, nio.KeysQueryResponse.from_dict)


def key_claim(devices: dict[str, list[str]]) -> KeyRequest:
    wanted = {user: dict.fromkeys(names, _KEY_ALGORITHM) for user, names in devices.items()}
    return _key_request("claim", {"one_time_keys": wanted}, nio.KeysClaimResponse.from_dict)


def to_device_message(
    event_type: str, body: Json, *, transaction_id: str, parse_answer: Callable[[Json], Any]
) -> KeyRequest:
    return KeyRequest(
        method="PUT",
        path=api_path("sendToDevice", event_type, transaction_id),
        body=body,
        parse_answer=parse_answer,
    )


def _key_request(endpoint: str, body: Json, parse_answer: Callable[[Json], Any]) -> KeyRequest:
    return KeyRequest(
        method="POST", path=api_path("keys", endpoint), body=body, parse_answer=parse_answer
    )
