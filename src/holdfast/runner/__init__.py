"""The workbench: the sandboxed program that runs a session's commands, and its client."""
