"""What is reached from outside: the HTTP listener, the local sockets, status and metrics."""
