"""The errors that reach users: what happened, where, what to do, and where it matters whose fault it is."""

from typing import Literal


class LoadframeError(Exception):
    """Something failed while it ran: a store did not come up, a run broke. Exit status 1."""

    exit_status = 1
    #: Whose fault a run is that fails by this error. Where nobody can say, no analysis takes it for a result.
    fault: Literal["store", "generator", "unknown"] = "unknown"

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        """Take the message's three parts; `where` is a file with line and column, a node or a run."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\n  {self.remedy}" if self.remedy else ""
        return f"{place}{self.what}{remedy}"


class StoreFailed(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """The store did not come up, ended, did not answer, or answered with an error."""

    fault = "store"


class GeneratorFailed(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """The load generator broke: what the run would have measured is not known."""

    fault = "generator"


class BadInput(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """The user's files, options or machine do not allow what was asked; nothing was started. Exit status 2."""

    exit_status = 2


class NothingUsable(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """No run of an experiment has a figure that can be used, or with `--strict` some have not. Exit status 4."""

    exit_status = 4
