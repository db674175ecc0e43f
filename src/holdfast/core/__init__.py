"""Types and rules that every other package uses. Pure: no event loop, disk, clock or logging."""
