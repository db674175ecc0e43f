"""Approvals: when a person must decide, the request to them, and the effect of their answer."""
