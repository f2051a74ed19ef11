"""Applications under test: instances of a user's program behind a load balancer, and the stores that they use."""

from loadframe.store.application.application import Application

__all__ = ["Application"]
