"""Access to existing clusters: options for addresses, TLS and credentials, named clusters, and consent to data loss."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cli.app import Topic, option
from loadframe.cli.choices import option_name
from loadframe.cli.output import tell

if TYPE_CHECKING:
    from loadframe.cluster import Cluster
    from loadframe.experiment.runner.session import DroppedData

P = ParamSpec("P")
R = TypeVar("R")
#: The options for credentials and TLS, by parameter: annotation and default.
_OPTIONS: Mapping[str, tuple[Any, Any]] = {
    "user": (
        Annotated[str | None, option(Topic.CREDENTIALS, help="User name. Loadframe prompts for the password.")],
        None,
    ),
    "password_file": (
        Annotated[Path | None, option(Topic.CREDENTIALS, help="File with the password. Or set LOADFRAME_PASSWORD.")],
        None,
    ),
    "api_key_file": (
        Annotated[Path | None, option(Topic.CREDENTIALS, help="File with an API key. Or set LOADFRAME_API_KEY.")],
        None,
    ),
    "token_file": (
        Annotated[Path | None, option(Topic.CREDENTIALS, help="File with a bearer token. Or set LOADFRAME_TOKEN.")],
        None,
    ),
    "aws_service": (
        Annotated[
            str | None,
            option(Topic.CREDENTIALS, help="Sign requests for this AWS service: es or aoss. Default: from the host."),
        ],
        None,
    ),
    "aws_region": (
        Annotated[str | None, option(Topic.CREDENTIALS, help="AWS region. Default: from the host, or AWS_REGION.")],
        None,
    ),
    "aws_profile": (
        Annotated[
            str | None,
            option(
                Topic.CREDENTIALS, help="AWS profile with the key. Default: the key in the environment, or AWS_PROFILE."
            ),
        ],
        None,
    ),
    "ca": (
        Annotated[
            Path | None,
            option(Topic.CREDENTIALS, help="Trust this certificate authority (PEM) instead of the system's."),
        ],
        None,
    ),
    "cert": (Annotated[Path | None, option(Topic.CREDENTIALS, help="Client certificate (PEM).")], None),
    "key": (
        Annotated[Path | None, option(Topic.CREDENTIALS, help="Key of --cert (PEM). Default: in the same file.")],
        None,
    ),
    "insecure": (
        Annotated[bool, option(Topic.CREDENTIALS, "--insecure", help="Accept any certificate. The run records this.")],
        False,
    ),
    "compress": (Annotated[bool, option(Topic.CREDENTIALS, "--compress", help="Compress request bodies.")], False),
}

#: The default of --store.
DEFAULT_STORE = "opensearch"


def with_options(others: Mapping[str, tuple[Any, Any]] = {}) -> Callable[[Callable[P, R]], Callable[..., R]]:
    """Return a decorator that adds `others`, then the options for credentials and TLS, to a command.

    `others` maps parameter names to (annotation, default). The command is called without these parameters; it reads
    their values from its context, and passes them to `existing`.
    """
    return functools.partial(_with_options, {**others, **_OPTIONS})


def _with_options(options: Mapping[str, tuple[Any, Any]], command: Callable[P, R]) -> Callable[..., R]:
    """Return the command with `options` inserted before its last parameter; calls drop their values.

    `options` has annotation and default by name. The command reads the values from its context.
    """
    signature = inspect.signature(command)
    *others, last = signature.parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    @functools.wraps(command)
    def wrapper(*args: P.args, **given: P.kwargs) -> R:
        for name in options:
            given.pop(name, None)
        return command(*args, **given)

    wrapper.__signature__ = signature.replace(parameters=[*others, *added, last])  # type: ignore[attr-defined]
    return wrapper


def existing(given: Mapping[str, Any], *, loads: bool = True) -> "Callable[[], Cluster] | None":
    """Return a function that attaches to the cluster at --hosts, from a command's parameters, or None without --hosts.

    BadInput if options contradict each other, or require --hosts. `loads` is whether the command applies load, which
    does not go through proxies: BadInput if an address cannot be reached without its proxy.
    """
    from loadframe.library.options import attachment

    return attachment(given.get("store") or DEFAULT_STORE, given["hosts"], given, _warn, option_name, loads=loads)


def named_cluster(name: str, store: str, context: typer.Context) -> "Cluster":
    """Return the named cluster. BadInput if it does not run, or `store` was given and is of another kind.

    `context` tells whether --store was given; its default is ignored.
    """
    from loadframe.cluster import Cluster
    from loadframe.store import find

    cluster = Cluster.load(name)
    source = context.get_parameter_source("store")
    if source is not None and source.name != "DEFAULT" and find(store).kind != cluster.store.kind:
        raise BadInput(
            f"cluster {name} is {cluster.store.kind}, not {store}",
            remedy="leave --store out: the name identifies the cluster",
        )
    return cluster


def confirm_drop(loss: "DroppedData") -> None:
    """Ask on standard error before --replace drops data. BadInput if the user declines, or without a terminal."""
    collections = ", ".join(f"{name} ({_documents_text(count)})" for name, count in loss.documents.items())
    sentence = f"--replace drops {collections} of {loss.product}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(
            f"{sentence}, which loadframe did not start",
            where=", ".join(loss.addresses),
            remedy="give --yes to drop them, or --reuse to keep the data",
        )
    tell(f"{sentence} at {', '.join(loss.addresses)}.")
    if not typer.confirm("Drop the data?", err=True):
        raise BadInput("nothing was dropped", remedy="--reuse keeps the data and skips the phases that prepare it")


def _documents_text(count: int | None) -> str:
    """Return a number of documents as text; `not counted` for None."""
    if count is None:
        return "not counted"
    return counted(count, "document")


def _warn(text: str) -> None:
    """Print a warning to standard error."""
    tell(text, style="yellow")
