"""Applications under test: instances of a program of the user's, behind a load balancer, with stores behind them."""

from loadframe.store.application.application import Application

__all__ = ["Application"]
