"""The two errors that reach users: what happened, where, and what to do."""


class LoadframeError(Exception):
    """Something failed while it ran: a store did not come up, a run broke. Exit status 1."""

    exit_status = 1

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


class BadInput(LoadframeError):  # noqa: N818 - reads as what it is where it is raised
    """The user's files, options or machine do not allow what was asked; nothing was started. Exit status 2."""

    exit_status = 2
