"""Jobs: what agents do at certain times."""
