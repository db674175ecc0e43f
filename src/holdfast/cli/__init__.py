"""The command line: click commands over the local API client and the control socket."""
