"""What ships for tests: simulated platform, conformance suite, scripted and misbehaving models."""
