"""Search: a second file with an index of all that was said, fed after the commit."""
