"""Platform accounts: registered, connected, supervised."""
