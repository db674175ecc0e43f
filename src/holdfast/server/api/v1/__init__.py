"""`/api/v1`: the documented HTTP API that the page and the command line use."""
