"""The handle: click commands, each a few lines over the control client."""
