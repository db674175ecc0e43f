"""`holdfast doctor`: the command and its health checks."""
