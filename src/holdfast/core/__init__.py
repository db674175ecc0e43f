"""Types and rules that everything else stands on. Pure: no event loop, no disk, no clock, no logging."""
