"""Questions that the machine wants to have asked: about keys, of the homeserver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nio  # type: ignore[import-untyped]  # it has annotations, and does not say so

from holdfast.platforms.matrix.paths import path
from holdfast.platforms.matrix.wire import Json

_KIND_OF_KEY = "signed_curve25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """`read` makes of the answer what the machine understands."""

    method: str
    path: str
    body: Json
    read: Callable[[Json], Any]


def upload(keys: Json) -> Owed:
    return _post("upload", keys, nio.KeysUploadResponse.from_dict)


def query(users: set[str]) -> Owed:
    everything: list[str] = []  # of their devices
    body = {"device_keys": dict.fromkeys(users, everything)}
    return _post("query", body, nio.KeysQueryResponse.from_dict)


def claim(devices: dict[str, list[str]]) -> Owed:
    wanted = {user: dict.fromkeys(names, _KIND_OF_KEY) for user, names in devices.items()}
    return _post("claim", {"one_time_keys": wanted}, nio.KeysClaimResponse.from_dict)


def to_device(kind: str, body: Json, *, name: str, read: Callable[[Json], Any]) -> Owed:
    return Owed(method="PUT", path=path("sendToDevice", kind, name), body=body, read=read)


def _post(what: str, body: Json, read: Callable[[Json], Any]) -> Owed:
    return Owed(method="POST", path=path("keys", what), body=body, read=read)
