"""Exit codes: what the process tells whoever started it."""

OK = 0
FAILED = 1
USAGE = 2  # click's own
GATEWAY_DOWN = 3  # a command that needs a running gateway found none
HOME_IN_USE = 4  # another process holds the home

GATEWAY_SERVICE_RESTART_EXIT_CODE = 75  # launchd and s6 take it as "start me again"
CONFIG_EXIT = 78  # no supervisor restarts this: a person has to mend the configuration
