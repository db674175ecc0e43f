"""The ports: protocols that the packages implement and use, so that none imports another."""
