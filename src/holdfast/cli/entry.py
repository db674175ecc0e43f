"""Entry point of `holdfast`: checks the Python version, answers --version, loads the rest.

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
    from holdfast.cli.root import run  # noqa: PLC0415 - click alone costs more than the rest

    run()
