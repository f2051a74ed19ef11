"""What is said about a result in words: a cause with its figures and a remedy. The base of all warnings."""

from abc import ABC, abstractmethod


class Finding(ABC):
    """Something to know before believing a result; each subclass carries its figures and states both sentences."""

    @property
    def cause(self) -> str:
        """What was seen, with its figures."""
        return self._cause()

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self._remedy()

    def as_dict(self) -> dict[str, str]:
        """Return cause and remedy for JSON."""
        return {"cause": self.cause, "remedy": self.remedy}

    @abstractmethod
    def _cause(self) -> str: ...

    @abstractmethod
    def _remedy(self) -> str: ...
