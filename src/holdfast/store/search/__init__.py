"""Search: a second file with an index of all messages, updated after each commit."""
