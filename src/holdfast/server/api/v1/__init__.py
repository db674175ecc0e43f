"""`/api/v1`: the one documented HTTP API that the page and the command line use."""
