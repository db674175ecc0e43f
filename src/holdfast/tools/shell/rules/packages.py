"""Rules about where packages, and with them code, come from."""

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.packages import (
    INSTALLERS,
    SOURCE_PROGRAMS,
    changes_package_source,
    installs_foreign_packages,
)
from holdfast.tools.shell.rules.base import ProgramRule, word_set

PACKAGE_RULES = (
    ProgramRule(
        name="install-from-elsewhere",
        level=CommandRisk.DANGEROUS,
        why=N_("It would install code from an address instead of a public registry."),
        programs=INSTALLERS,
        matches=installs_foreign_packages,
    ),
    ProgramRule(
        name="install-a-package-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would install a package file on the machine."),
        programs=word_set("dpkg rpm"),
        matches=lambda run: (
            run.options().has("iU", "install", "upgrade", "unpack")
            and not run.options().has("qlLsV", "query", "list", "status", "verify", "info")
        ),
    ),
    ProgramRule(
        name="change-a-package-source",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change where later installs get their packages from."),
        programs=SOURCE_PROGRAMS,
        matches=changes_package_source,
    ),
)
