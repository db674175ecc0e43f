"""The configuration: settings, versions, and the effect of a change."""
