"""IRC: one nick on one network, over a client of our own."""
