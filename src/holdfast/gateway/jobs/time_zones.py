"""Time zones by name, and the machine's own with its summer time."""

from datetime import UTC, datetime, timedelta, tzinfo

from holdfast.core.jobs.schedule import InvalidSchedule


class MachineZone(tzinfo):
    """Local time as the machine keeps it: what a summer begins with moves the clock here too."""

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
    """ "" is the machine's. Raises `InvalidSchedule` where this machine does not know the name."""
    if not name:
        return _MACHINE
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most gateways never need

    try:
        return ZoneInfo(name)
    except (ValueError, LookupError, OSError):  # unknown, not a name at all, or a folder of them
        raise InvalidSchedule(
            f"{name!r} is no time zone that this machine knows; one is called Europe/Berlin"
        ) from None
