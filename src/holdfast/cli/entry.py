"""Entry point of `holdfast`: checks the Python version, answers --version, chooses the language,
loads the rest.

This file must compile on old Pythons and must not import click: --version has a budget of 80 ms.
"""

import sys


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - an older one gets a clear error
        sys.exit("Holdfast needs Python 3.11 or newer; this is " + sys.version.split()[0])
    if sys.argv[1:] in (["--version"], ["version"]):
        from holdfast import __version__  # noqa: PLC0415 - nothing before the check above

        print("holdfast " + __version__)
        return
    # Imported here: click alone costs more than all that is above.
    from holdfast.cli.common.language import choose_language  # noqa: PLC0415

    choose_language(sys.argv[1:])
    from holdfast.cli.root import run  # noqa: PLC0415 - its commands are texts in that language

    run()
