"""The gateways of `tests/platforms`, for the window as for the doors."""

from tests.platforms.conftest import client, http, model_process, serve, served

__all__ = ["client", "http", "model_process", "serve", "served"]
