"""Slack: an app of a workspace, reached over a socket or by what Slack posts."""
