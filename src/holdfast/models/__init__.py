"""Model clients: connection pool, codecs for three API modes, retries, fallbacks, demo model."""
