"""The program inside the sandbox: standard library only, Python 3.9 or newer, one thread."""
