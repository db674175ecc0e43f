"""Approvals: when a person must decide, how they are asked, and what their answer does."""
