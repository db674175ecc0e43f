"""Paths of the client-server interface: what names a thing there may hold any sign."""

from urllib.parse import quote


def api_path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def room_path(room_id: str, *parts: str) -> str:
    return api_path("rooms", room_id, *parts)
