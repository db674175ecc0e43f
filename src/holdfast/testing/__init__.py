"""Ships for tests: the simulated platform, checks for platforms, scripted and faulty models."""
