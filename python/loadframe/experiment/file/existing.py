"""Checks of experiments on existing clusters: refuse keys and factors that Loadframe cannot set or observe."""

from pathlib import Path
from typing import TypeVar

from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ScaleCommand
from loadframe.experiment.experiment import Experiment, derived_values
from loadframe.experiment.file.elastic import CHANGES, ElasticFile
from loadframe.experiment.file.factors import COLLECTIONS, HOSTS, SETTINGS, WITH
from loadframe.experiment.file.model import EXISTING_KEYS, ONCE, ExperimentFile
from loadframe.yamlfile import Document, Place

F = TypeVar("F", bound=ExperimentFile)

#: Factors that only a new cluster can have at several levels.
_OF_NEW_CLUSTERS = ("store.version", "store.limits.", "store.link.", "store.encryption")
#: Steps of a timeline that Loadframe can take on a cluster that it did not start.
_POSSIBLE_STEPS = ("add", "remove", "set")


def with_kind(document: Document, file: F) -> F:
    """Return the file with `store.kind` set to the kind of its named cluster (`store.cluster`), unchanged without one.

    BadInput if the cluster is unknown or the file names another kind.
    """
    name = file.store.cluster
    if name is None:
        return file
    try:
        kind = Cluster.recorded(name).store
    except BadInput as error:
        raise document.error(("store", "cluster"), error.what, error.remedy) from None
    if file.store.kind not in ("", kind):
        what = f"the cluster {name} is {kind}, not {file.store.kind}"
        raise document.error(("store", "kind"), what, "remove kind: the name identifies the cluster")
    return file.model_copy(update={"store": file.store.model_copy(update={"kind": kind})})


def scale_command(experiment: Experiment) -> ScaleCommand | None:
    """Return the user's command that changes the number of nodes; None if the file has none. It is not checked."""
    store = experiment.file.store
    if store.scale_command is None:
        return None
    return ScaleCommand(store.scale_command, experiment.document.path.parent, store.scale_within)


def check_existing(experiment: Experiment) -> None:
    """Raise BadInput for keys, factors, settings, numbers of nodes and steps that an existing cluster does not permit.

    For a new cluster, raise it only for keys that require an existing one, and for `prepare: once`.
    """
    file, document = experiment.file, experiment.document
    if not experiment.exists:
        for key in EXISTING_KEYS:
            if key in file.store.model_fields_set:
                what, remedy = f"{key} requires an existing cluster", "add hosts or cluster"
                raise document.error(("store", key), what, remedy, key=True)
        if file.prepare == (ONCE,):
            what = "prepare: once requires an existing cluster (store.hosts or store.cluster)"
            raise document.error(("prepare",), what, "remove it: a new cluster has no earlier data")
        return
    _check_factors(experiment)
    _check_settings(experiment)
    _check_nodes(experiment)
    if file.store.hosts and getattr(file, "crash", None) is not None:
        what = "crash requires a cluster of Loadframe: it cannot kill nodes of other clusters"
        raise document.error(("crash",), what, "remove it, or use store.cluster", key=True)
    if isinstance(file, ElasticFile) and file.store.hosts:
        _check_steps(experiment, file)


def _check_factors(experiment: Experiment) -> None:
    """Raise BadInput for factors that an existing cluster or `data: reuse` does not permit.

    Version, limits, links and encryption are not permitted; nor is `store.kind`, unless `store.hosts` is a factor, too.
    With `data: reuse`, factors may not change the data: keys of collections, and parameters that affect prepared
    phases. `store.hosts` is not permitted with `store.cluster`, or with settings as factors.
    """
    file, document = experiment.file, experiment.document
    names = [factor.name for factor in experiment.factors]
    for name in names:
        place = experiment.kind.place(file, name, None)
        if name.startswith(_OF_NEW_CLUSTERS) or (name == "store.kind" and HOSTS not in names):
            what = f"{name} cannot be a factor: Loadframe cannot change it on an existing cluster"
            raise document.error(place, what, "remove it, or let Loadframe start the cluster", key=True)
        if name == HOSTS and file.store.cluster:
            raise document.error(place, f"{HOSTS} and store.cluster both name a cluster", "remove one", key=True)
        changes_data = name.startswith(COLLECTIONS) or (name.startswith(WITH) and _is_hard(experiment, name))
        if file.store.data == "reuse" and changes_data:
            what = f"{name} cannot be a factor with data: reuse, because it needs other data"
            raise document.error(place, what, "remove it, or set data: new", key=True)
        if name.startswith(SETTINGS) and HOSTS in names:
            what = f"{name} and {HOSTS} cannot both be factors"
            raise document.error(place, what, "write an experiment for each cluster", key=True)


def _check_settings(experiment: Experiment) -> None:
    """Raise BadInput for settings, of the file or as factors, that the store's kind cannot change while it runs.

    Not checked if `store.kind` is a factor.
    """
    file, factors = experiment.file, [factor.name for factor in experiment.factors]
    if "store.kind" in factors:
        return
    places: dict[str, Place] = {name: ("store", "settings", name) for name in file.store.settings}
    places |= {
        name.removeprefix(SETTINGS): experiment.kind.place(file, name, None)
        for name in factors
        if name.startswith(SETTINGS)
    }
    for name, place in places.items():
        try:
            Cluster.require_running_setting(file.store.kind, name)
        except BadInput as error:
            raise experiment.document.error(place, error.what, error.remedy, key=True) from None


def not_checked(experiment: Experiment) -> str | None:
    """Return a sentence on facts of an existing cluster that a dry run does not check, or None for new clusters."""
    if not experiment.exists:
        return None
    names = list(experiment.file.store.settings)
    names += [factor.name.removeprefix(SETTINGS) for factor in experiment.factors if factor.name.startswith(SETTINGS)]
    settings = f", and whether it has the settings {', '.join(dict.fromkeys(names))}" if names else ""
    return (
        "not checked: no node was contacted and nothing was started. The first run checks whether the cluster answers"
        f" and has the right kind and number of nodes{settings}"
    )


def not_observed(experiment: Experiment) -> list[str]:
    """Return sentences on facts of existing clusters that Loadframe cannot observe or change; empty for new ones."""
    if not experiment.exists:
        return []
    unchanged = (
        "existing cluster: Loadframe does not change version, limits, or settings that need a restart. Caches, also the"
        " page cache, stay warm between runs"
    )
    if experiment.file.store.cluster:
        return [unchanged]
    unseen = (
        "existing cluster: Loadframe records statistics of the store. It does not observe CPU, memory, disk and limits"
        " of the nodes, the durability of writes, and other programs on the nodes' machines"
    )
    return [unseen, unchanged]


def _is_hard(experiment: Experiment, name: str) -> bool:
    """Return whether the workload parameter of the factor `name`, `with.NAME`, affects the prepared phases."""
    parameter = name.removeprefix(WITH)
    return parameter in experiment.workload.shaping(experiment.prepared)


def _check_nodes(experiment: Experiment) -> None:
    """Raise BadInput for `nodes` as a factor without `store.cluster` or `scale_command`, or for an unusable command.

    Without any number of nodes, refuse expressions with `nodes`, and transitions without their own number.
    """
    file, document = experiment.file, experiment.document
    names = [factor.name for factor in experiment.factors]
    command = scale_command(experiment)
    if command:
        try:
            command.require()
        except BadInput as error:
            raise document.error(("store", "scale_command"), error.what, error.remedy) from None
    if file.store.cluster is None and command is None:
        remedy = "add store.scale_command, such as ./scale.sh {nodes}; or use store.cluster"
        if "nodes" in names:
            what = "nodes cannot be a factor: Loadframe does not know how to change the number of nodes"
            raise document.error(experiment.kind.place(file, "nodes", None), what, remedy, key=True)
    if "nodes" not in names and file.store.expected_nodes is None:
        for derived in derived_values(experiment):
            if "nodes" in derived.written.names:
                what = "the expression uses nodes, but the number of nodes of the cluster is not given"
                raise document.error(derived.place, what, "add store.nodes, which is compared with the cluster")
        if isinstance(file, ElasticFile) and any(entry.nodes is None for entry in file.transitions.values()):
            what = "the number of nodes before the transitions is not given"
            raise document.error(("store",), what, "add store.nodes, which is compared with the cluster")


def _check_steps(experiment: Experiment, file: ElasticFile) -> None:
    """Raise BadInput for steps other than `add N`, `remove N` and `set`, as for clusters that Loadframe did not start.

    Without `scale_command`, also for `add`, `remove` and policies.
    """
    document, can_scale = experiment.document, file.store.scale_command is not None
    for name, transition in file.transitions.items():
        place = ("transitions", name)
        if transition.policy is not None and not can_scale:
            what = "a policy requires a command that changes the number of nodes"
            raise document.error((*place, "policy"), what, "add store.scale_command", key=True)
        for index, step in enumerate(transition.timeline or ()):
            key = next(key for key in type(step).model_fields if key in CHANGES and getattr(step, key) is not None)
            here = (*place, "timeline", index, key)
            if key not in _POSSIBLE_STEPS or isinstance(step.remove, str):
                what = f"{key} is not possible: Loadframe did not start the nodes"
                remedy = f"use {', '.join(_POSSIBLE_STEPS)} with a number of nodes, or store.cluster"
                raise document.error(here, what, remedy, key=True)
            if key != "set" and not can_scale:
                what = f"{key} requires a command that changes the number of nodes"
                raise document.error(here, what, "add store.scale_command", key=True)


def below(experiment: Experiment, name: str | None) -> Path | None:
    """Return the path of a file that the experiment names, relative to the experiment's folder; None without a name.

    Expands `~`; an absolute path stays. The file need not exist.
    """
    return None if name is None else experiment.document.path.parent / Path(name).expanduser()
