"""The page: its static files, which hold no data, and the routes that serve them."""
