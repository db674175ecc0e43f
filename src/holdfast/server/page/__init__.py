"""The page: static files that hold no data of their own, and the routes that serve them."""
