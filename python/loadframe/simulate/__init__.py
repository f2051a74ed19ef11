"""The simulated store in virtual time: sweeps, arrivals and transitions of known truth, in seconds instead of hours."""

from loadframe.simulate.load import Load, arriving, closed
from loadframe.simulate.transition import Change, Transition, transition

__all__ = ["Change", "Load", "Transition", "arriving", "closed", "transition"]
