"""Destinations: where what a job says goes, and who may send it there."""

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.jobs.job import HOME, NOWHERE, ORIGIN, JobRefused, JobSpec, RunSession
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.registry import PlatformRegistry, normalise_chat_id
from holdfast.gateway.notify.home_channels import HomeChannels


class JobRequester(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for jobs, where, and what they may."""

    source: Source
    principal: PrincipalId
    is_operator: bool
    has_chat: bool = True  # False: a program asks, and there is no chat to answer in
    from_run: bool = False  # it is a run of a job that asks


class JobDestinations:
    """Owns nothing: doors and homes say what there is."""

    def __init__(self, platforms: PlatformRegistry, home_channels: HomeChannels) -> None:
        self._platforms = platforms
        self._home_channels = home_channels

    def default(self, requester: JobRequester) -> str:
        if requester.has_chat:
            return ORIGIN
        return HOME if self._home_channels.all() else NOWHERE

    def default_session(self, requester: JobRequester, to: str) -> RunSession:
        """Where answers are fetched, nobody could be sent that of a session of its own."""
        here = to == ORIGIN and self._is_fetched(source_address(requester.source))
        return RunSession.HERE if here else RunSession.FRESH

    def check(self, to: str, runs_in: RunSession, requester: JobRequester) -> Address | None:
        """The chat that is named, if one is; raises `JobRefused` where this cannot be."""
        if to == ORIGIN:
            self._check_origin(runs_in, requester)
            return None
        if runs_in is RunSession.HERE:
            raise JobRefused("A job that runs in its conversation answers there: leave out `to`.")
        if to == NOWHERE:
            return None
        if not requester.is_operator:
            raise JobRefused(
                "Only operators may have a job tell its answer elsewhere than where it was made."
            )
        if to == HOME:
            self._check_home()
            return None
        return self._parse_chat(to)

    def address_of(self, spec: JobSpec) -> Address | None:
        """Where an answer goes now; None: nobody is sent it."""
        if spec.to == ORIGIN:
            return source_address(spec.source)
        if spec.to == HOME:
            return self._home(spec.source.platform)
        return spec.address

    def _check_origin(self, runs_in: RunSession, requester: JobRequester) -> None:
        if not requester.has_chat:
            raise JobRefused(
                "This was not asked in a chat, so there is no origin to answer in: say home, "
                "nowhere, or a chat as platform:chat."
            )
        if runs_in is RunSession.FRESH and self._is_fetched(source_address(requester.source)):
            raise JobRefused(
                f"{requester.source.platform} shows conversations and sends nothing, so that nobody "
                "would see the answer of a session of its own: leave that out, and it runs here."
            )

    def _check_home(self) -> None:
        if not self._home_channels.all():
            raise JobRefused(
                "There is no home channel: say /sethome in the chat that is to be it, or set "
                "platforms.NAME.home in holdfast.toml."
            )

    def _parse_chat(self, to: str) -> Address:
        platform, _, place = to.partition(":")
        chat, _, thread = place.partition("/")
        doors = {
            door.name: door
            for door in self._platforms
            if not door.capabilities.fetchable and door.name != INTERNAL_PLATFORM
        }
        door = doors.get(platform)
        if door is None or not chat:
            names = ", ".join(sorted(doors))
            raise JobRefused(
                f"{to!r} is no place to tell it: say origin, home, nowhere, or platform:chat, "
                + (f"where platform is one of {names}." if names else "once a platform is set up.")
            )
        return Address(
            platform=platform,
            account=door.account,
            chat_id=normalise_chat_id(door, chat),
            thread_id=thread or None,
        )

    def _home(self, platform: str) -> Address | None:
        homes = [home.address for home in self._home_channels.all()]
        own = [address for address in homes if address.platform == platform]
        return next(iter((*own, *homes)), None)

    def _is_fetched(self, address: Address) -> bool:
        return self._platforms.capabilities(address).fetchable


def source_address(source: Source) -> Address:
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
    )
