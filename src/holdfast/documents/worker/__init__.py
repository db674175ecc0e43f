"""The child process that reads one document, with the standard library alone."""
