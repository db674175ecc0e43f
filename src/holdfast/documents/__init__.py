"""Text of attached documents, read in a child process with limits."""
