"""Time zones by name, and the machine's own with its summer time."""

from datetime import UTC, datetime, timedelta, tzinfo

from holdfast.core.jobs.schedule import InvalidSchedule


class MachineZone(tzinfo):
    """Local time of this machine, with its changes between winter and summer time."""

    def utcoffset(self, dt: datetime | None) -> timedelta:
        shown = _naive(dt or datetime.now())
        return shown - _naive(datetime.fromtimestamp(shown.timestamp(), UTC))

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return _naive(dt or datetime.now()).astimezone().tzname() or "local time"

    def fromutc(self, dt: datetime) -> datetime:
        local = datetime.fromtimestamp(dt.replace(tzinfo=UTC).timestamp())
        return local.replace(tzinfo=self)


def _naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


_MACHINE = MachineZone()


def zone_of(name: str) -> tzinfo:
    """The time zone of that name; "": the machine's. Raises `InvalidSchedule` if it is unknown."""
    if not name:
        return _MACHINE
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most gateways never need

    try:
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError):  # unknown, not a name at all, or a folder of them
        raise InvalidSchedule(
            "This machine does not know the time zone {name!r}. Use a name such as "
            "Europe/Berlin or UTC.",
            name=name,
        ) from None
