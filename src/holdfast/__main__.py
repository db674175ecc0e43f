"""Runs the `holdfast` command: `python -m holdfast`."""

from holdfast.cli.entry import main

main()
