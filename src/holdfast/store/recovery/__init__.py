"""Recovery of a damaged database: what can be read of it, page by page, into a new one."""
