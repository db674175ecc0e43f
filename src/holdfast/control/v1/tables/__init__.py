"""The table of `/api/v1`, by what its endpoints are about."""
