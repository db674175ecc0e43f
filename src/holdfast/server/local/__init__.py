"""The Unix sockets of the gateway (control and status), and their clients."""
