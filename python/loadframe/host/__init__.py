"""Where node processes run, under which limits. A host knows commands, not stores."""

from loadframe.host.base import Command, Host, Machine, Process
from loadframe.host.limits import PERIOD, Limits

__all__ = ["PERIOD", "Command", "Host", "Limits", "Machine", "Process"]
