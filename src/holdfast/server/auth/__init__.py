"""Who makes a request: principals, viewer tokens, browser login, rate limit of wrong tokens."""
