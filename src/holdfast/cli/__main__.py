"""Runs `python -m holdfast.cli`: the same as `holdfast`."""

from holdfast.cli.entry import main

main()
