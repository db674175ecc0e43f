"""Slack: an app of a workspace, connected by Socket Mode or by HTTP events."""
