"""Fixtures of the fault tests."""

from tests.support.stores import each_store  # noqa: F401 - these tests run for each store
