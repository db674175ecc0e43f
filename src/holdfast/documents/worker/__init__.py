"""The child process that reads one document of an unknown sender, with the standard library alone."""
