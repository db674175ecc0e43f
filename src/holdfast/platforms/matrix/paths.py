"""Paths of the client-server interface: what names a thing there may hold any sign."""

from urllib.parse import quote


def path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def in_room(room_id: str, *parts: str) -> str:
    return path("rooms", room_id, *parts)
