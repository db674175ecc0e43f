"""The runner: the sandboxed program that runs a session's commands, and its client.

What the walls do not do. With `network = "full"` a command reaches whatever this machine
reaches, the gateway's listener on loopback included, which therefore asks for a token. Where no
cgroup can be created, memory is limited for each process, not for all of a session together.
Without a sandbox a command has the gateway's own rights, and one that moves itself to another
cgroup or session manager (`systemd-run`, `at`, a container) is not ended with its session, because
nothing below the runner leads to it.
"""
