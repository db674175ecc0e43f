"""Sessions: conversations, their reset and their search."""
