"""IRC: one nick on one network, with a client of our own."""
