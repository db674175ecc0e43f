"""Chat platforms: one folder each, all behind the `Platform` port.

To add one: a folder whose `plugin.py` has a `PLUGIN`, and a line in `BUILT_IN_PLUGINS`
(`config/platforms.py`).
"""
