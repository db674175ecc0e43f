"""Start and stop of a gateway: recovery, phases, draining, restarts."""
