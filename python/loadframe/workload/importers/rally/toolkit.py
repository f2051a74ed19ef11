"""Stubs of Rally, OpenSearch Benchmark and store clients, for loading a track's code.

The base classes of parameter sources work; all other names are classes or modules that do nothing. Used only in the
process of `isolated`.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: The packages that are replaced.
PACKAGES = ("esrally", "osbenchmark", "elasticsearch", "opensearchpy")


class ParamSource:
    """Base class of parameter sources; returns the operation's parameters."""

    infinite = True

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any) -> None:
        """Keep the track, also as `workload`, the operation's parameters, and further arguments."""
        self.track = track
        self.workload = track
        self._params = params
        self.kwargs = kwargs

    def partition(self, _index: int, _total: int) -> "ParamSource":
        """Return this source itself, which all clients share."""
        return self

    def params(self) -> dict[str, Any]:
        """Return the operation's parameters: the same mapping for each request."""
        return self._params

    def _client_params(self) -> dict[str, Any]:
        """Return the parameters of an operation that concern the client, such as `request-timeout`."""
        return {key: self._params[key] for key in ("request-timeout", "headers", "opaque-id") if key in self._params}


class SearchParamSource(ParamSource):
    """Base class of sources of searches, with parameters in `query_params`."""

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any) -> None:
        """Copy the operation's parameters to `query_params`."""
        super().__init__(track, params, **kwargs)
        self.query_params = dict(params)

    def params(self) -> dict[str, Any]:
        """Return `query_params`, the same mapping for each request."""
        return self.query_params


class _TemplateSource(ParamSource):
    """Base class of sources of templates, with pairs of name and body in `template_definitions`."""

    kind = ""

    def __init__(self, track: Any, params: dict[str, Any], **kwargs: Any) -> None:
        """Take the track's templates of the class's `kind`: the one under `template` of the operation, or all."""
        super().__init__(track, params, **kwargs)
        wanted = params.get("template")
        definitions = [(template.name, template.content) for template in getattr(track, self.kind)]
        self.template_definitions = [one for one in definitions if wanted is None or one[0] == wanted]

    def params(self) -> dict[str, Any]:
        """Return the selected templates, as pairs under `templates`, and the operation's `request-params`."""
        return {"templates": self.template_definitions, "request-params": self._params.get("request-params", {})}


class CreateIndexTemplateParamSource(_TemplateSource):
    """Source of legacy templates."""

    kind = "templates"


class CreateComponentTemplateParamSource(_TemplateSource):
    """Source of component templates."""

    kind = "component_templates"


class CreateComposableTemplateParamSource(_TemplateSource):
    """Source of composable templates."""

    kind = "composable_templates"


_REAL = {
    name: value for name, value in list(globals().items()) if name.endswith("ParamSource") and not name.startswith("_")
}


class _Hollow(ModuleType):
    """A module that provides any attribute: a class for capitalized names, otherwise a module."""

    def __getattr__(self, name: str) -> Any:
        """Return a working parameter source by its name, else a class or module that does nothing, and keep it.

        AttributeError for names that start with two underscores.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _REAL:
            return _REAL[name]
        if name.endswith("ParamSource"):
            made: Any = type(name, (ParamSource,), {})
        elif name[0].isupper():
            made = type(name, (Exception,) if self.__name__.endswith("exceptions") else (), {"__init__": _anything})
        else:
            made = _hollow(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


def _anything(self: Any, *_: Any, **__: Any) -> None:
    """Accept any arguments."""


def _hollow(name: str) -> ModuleType:
    """Return the module `name` of `sys.modules`; if there is none, add a stub module (not its parents)."""
    if name not in sys.modules:
        module = _Hollow(name)
        module.__path__ = []
        sys.modules[name] = module
    return sys.modules[name]


class _Finder(MetaPathFinder, Loader):
    """Import hook for the stub packages and all their modules."""

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        """Return the spec of a stub module, or None for modules of other packages."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in PACKAGES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a new stub module."""
        return _Hollow(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def install() -> None:
    """Install the hook that imports stand-ins for Rally, OpenSearch Benchmark, and their clients in this process."""
    sys.meta_path.insert(0, _Finder())
