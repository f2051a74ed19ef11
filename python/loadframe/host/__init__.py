"""Hosts: the machines that run node processes, and the resource limits of nodes.

A host runs commands. It does not depend on any data store.
"""

from loadframe.host.base import Command, Host, Machine, Process
from loadframe.host.limits import PERIOD, Limits

__all__ = ["PERIOD", "Command", "Host", "Limits", "Machine", "Process"]
