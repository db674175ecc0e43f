"""Every check, in the order in which they are told: what the others stand on comes first."""

from holdfast.cli.doctor.backups import Backups
from holdfast.cli.doctor.contents import Configuration, Database, Model
from holdfast.cli.doctor.finding import Check
from holdfast.cli.doctor.ground import Disk, Home, Leftovers, Lock, Permissions
from holdfast.cli.doctor.programs import Sandbox, Versions
from holdfast.cli.doctor.units import Units

CHECKS: tuple[Check, ...] = (
    Versions(),
    Home(),
    Permissions(),
    Disk(),
    Configuration(),
    Lock(),
    Leftovers(),
    Database(),
    Backups(),
    Units(),
    Sandbox(),
    Model(),
)
