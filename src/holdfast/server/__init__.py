"""The window: the one HTTP listener, the control socket, status and metrics."""
