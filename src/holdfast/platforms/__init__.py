"""Chat platforms: one folder each, all behind the `Platform` port."""
