"""`scipy.special`, imported when it is first used: the import takes a fifth of a command's start."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Types only.
    from scipy.special import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Return a function of `scipy.special`, and keep it as an attribute of this module."""
        from scipy import special

        # The next use finds it here.
        return globals().setdefault(name, getattr(special, name))
