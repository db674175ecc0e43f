"""The program that reads one document of a stranger, within limits, and ends; the standard library
is all it needs."""
