"""Supervisors that keep a gateway running: systemd, launchd, and our own in a container."""
