"""The house: intake, lanes, delivery, commands, recovery, shutdown."""
