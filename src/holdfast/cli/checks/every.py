"""Every check, in the order in which they are told: what the others stand on comes first."""

from holdfast.cli.checks.backups import Backups
from holdfast.cli.checks.contents import Configuration, Database, Model
from holdfast.cli.checks.finding import Check
from holdfast.cli.checks.ground import Disk, Home, Leftovers, Lock, Permissions
from holdfast.cli.checks.programs import Sandbox, Versions
from holdfast.cli.checks.units import Units

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
