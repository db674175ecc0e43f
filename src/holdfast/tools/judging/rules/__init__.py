"""The rules, one file for each family of things that a command may do."""
