"""Errors of the fake Discord, in the vendor's own wording."""

from typing import Any


class FakeDiscordError(Exception):
    """https://discord.com/developers/docs/reference#error-messages: a status, and JSON with a
    `code` and a `message`."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "code": code, **more}


def flood(seconds: float, *, everywhere: bool = False) -> FakeDiscordError:
    """https://discord.com/developers/docs/topics/rate-limits#exceeding-a-rate-limit"""
    more = {"retry_after": seconds, "global": everywhere}
    return FakeDiscordError(429, 0, "You are being rate limited.", **more)


def blocked() -> FakeDiscordError:
    """topics/opcodes-and-status-codes#json-json-error-codes"""
    return FakeDiscordError(403, 50007, "Cannot send messages to this user")
