"""Wire types of `/api/v1`, for the endpoints, the control socket and the command line.

Imports nothing heavy.
"""
