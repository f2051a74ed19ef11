"""Errors that reach users (problem, place, remedy, component to blame), and the exit codes of commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Literal


class ExitCode(IntEnum):
    """An exit code of a command, with its meaning for users."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        """Return the code with its meaning, for users, as an attribute."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "The command did its work. gate: passed."
    FAILED = 1, "A run, a store or a check failed. gate: a regression or a broken bound."
    BAD_INPUT = (
        2,
        "Files, options or the machine do not allow the request, the cluster at --hosts does not answer, no rate meets"
        " the SLO, or no trigger fired.",
    )
    INCONCLUSIVE = 3, "gate: the runs show neither a pass nor a regression."
    NO_VALID_RUN = 4, "No run of the experiment is valid; with --strict, a run is invalid. The report gives the causes."
    TRY_AGAIN = 75, "The Slurm job ends before the last run. Submit it again to continue."
    INTERRUPTED = 130, "Interrupted by Ctrl-C, SIGTERM or SIGHUP. Finished work is kept."
    OUTPUT_CLOSED = 141, "The reader of the output left, as in `| head`."
    TERMINATED = 143, "A rank above 0 received SIGTERM."


class LoadframeError(Exception):
    """A failure at run time, such as of a store or a run. Exit status 1. All errors of Loadframe are subclasses.

    >>> try:
    ...     loadframe.open("nowhere")
    ... except loadframe.LoadframeError as error:
    ...     error.what, error.where
    ('no such run folder', 'nowhere')
    """

    exit_status = ExitCode.FAILED
    #: The component to blame for a run that fails with this error. Analyses ignore runs with an unknown fault.
    fault: Literal["store", "generator", "unknown"] = "unknown"

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        """Set the problem, its place (file with line and column, node or run) and the remedy."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\n  {self.remedy}" if self.remedy else ""
        return f"{place}{self.what}{remedy}"


class StoreFailed(LoadframeError):
    """The store did not start, ended, did not answer, or answered with an error.

    >>> loadframe.StoreFailed.fault
    'store'
    """

    fault = "store"


class GeneratorFailed(LoadframeError):
    """The load generator failed during a run.

    >>> loadframe.GeneratorFailed.fault
    'generator'
    """

    fault = "generator"


class BadInput(LoadframeError):
    """Files, options or the machine do not allow the request, or the given cluster does not answer. Exit status 2.

    >>> try:
    ...     loadframe.Workload(workload="w", operations={"read": {"serch": {}}}, phases=[])
    ... except loadframe.BadInput as error:
    ...     "Workload: operations.read" in str(error)
    True
    """

    exit_status = ExitCode.BAD_INPUT


@contextmanager
def before_start() -> Iterator[None]:
    """Raise each LoadframeError as BadInput: nothing was started, so the command refuses its input."""
    try:
        yield
    except BadInput:
        raise
    except LoadframeError as error:
        raise BadInput(error.what, where=error.where, remedy=error.remedy) from error


class NothingUsable(LoadframeError):
    """No run of an experiment is valid; with `--strict`, at least one run is invalid. Exit status 4.

    >>> int(loadframe.NothingUsable.exit_status)
    4
    """

    exit_status = ExitCode.NO_VALID_RUN
