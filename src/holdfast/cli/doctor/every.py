"""Every check, in the order in which they are told: what the others stand on comes first."""

from holdfast.cli.doctor.backups import BackupsCheck
from holdfast.cli.doctor.contents import ConfigCheck, DatabaseCheck, ModelHealthCheck
from holdfast.cli.doctor.finding import HealthCheck
from holdfast.cli.doctor.ground import (
    DiskCheck,
    HomeCheck,
    LeftoversCheck,
    LockCheck,
    PermissionsCheck,
)
from holdfast.cli.doctor.programs import SandboxCheck, VersionsCheck
from holdfast.cli.doctor.units import UnitCheck

CHECKS: tuple[HealthCheck, ...] = (
    VersionsCheck(),
    HomeCheck(),
    PermissionsCheck(),
    DiskCheck(),
    ConfigCheck(),
    LockCheck(),
    LeftoversCheck(),
    DatabaseCheck(),
    BackupsCheck(),
    UnitCheck(),
    SandboxCheck(),
    ModelHealthCheck(),
)
