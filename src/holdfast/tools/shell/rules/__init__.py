"""The rules by which a command is judged, one file for each area."""
