"""The reference of the command line, from the commands."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from loadframe.base.errors import ExitCode
from loadframe.cli.app import MOST_UNGROUPED, SUMMARIES, Topic, app

#: Environment variables that users set.
VARIABLES = {
    "LOADFRAME_CACHE": (
        "Folder of downloads and calibrations. Default: `~/.cache/loadframe`; as root `/var/cache/loadframe`."
    ),
    "LOADFRAME_STATE": (
        "Folder of named clusters and running nodes. Default: `~/.local/state/loadframe`; as root `/var/lib/loadframe`."
    ),
    "LOADFRAME_PASSWORD": "Password of `--user`, instead of `--password-file`.",
    "LOADFRAME_API_KEY": "API key of an existing cluster, instead of `--api-key-file`.",
    "LOADFRAME_TOKEN": "Bearer token of an existing cluster, instead of `--token-file`.",
    "LOADFRAME_JAVA_HOME": "Java runtime of the stores. Default: the bundled one.",
    "LOADFRAME_MAVEN": "URL of a mirror of the Maven repository.",
    "LOADFRAME_MIRROR_STORE": "URL of a mirror of a vendor's downloads, such as `LOADFRAME_MIRROR_MONGODB`.",
    "LOADFRAME_SSH": "The ssh command of `--host ssh`, such as `ssh -F FILE`.",
}
#: Environment variables that `cluster up NAME -- COMMAND` sets for COMMAND.
GIVEN = {
    "LOADFRAME_CLUSTER": "Name of the cluster.",
    "LOADFRAME_STORE": "Kind of store.",
    "LOADFRAME_HOSTS": "Addresses of the nodes as `host:port`, comma-separated.",
    "LOADFRAME_HOST": "Address of the first node.",
    "LOADFRAME_USER": "User, if the store requires one.",
    "LOADFRAME_PASSWORD": "Password of that user.",
    "LOADFRAME_CA": "Certificate authority (PEM), if the cluster uses TLS.",
}

#: The result of each command with `--json`: command, result, keys.
RESULTS = (
    ("`demo`, `run`", "the report, as `report` prints it", ""),
    (
        "`run --dry-run`",
        "the design",
        "those of `experiment.json`, and `expected_seconds`, `most_runs`, `most_seconds`, `length_known`",
    ),
    (
        "`bench`, `report RUN`",
        "the run",
        "`run`, `percentiles`, `samples`, and those of [`summary.json`](run-folder.md)",
    ),
    ("`report EXPERIMENT`", "the analysis of the kind of experiment", "see [run folder](run-folder.md)"),
    ("`report --format queries`", "the file that it writes", ""),
    (
        "`ingest`",
        "counts of events",
        "`run`, `source`, `lines`, `accepted`, `indexed`, `documents`, `dead_letters`, `left_over`, ...",
    ),
    (
        "`slurm`",
        "the job",
        "`script`, `job`, `time`, `runs`, `seconds`, `length_known`, `nodes`, `machines`, `generators`,"
        " `machine_hours`, `missing`",
    ),
    (
        "`plan`",
        "the expected precision",
        "`experiment`, `kind`, `over`, `law`, `origin`, `made`, `designs`, `best`, `effects`, ...",
    ),
    (
        "`check`",
        "a list of operations",
        "`phase`, `operation`, `request`, `answer`, `message`, `error`, `documents`, `service_time`, `empty`, ...",
    ),
    (
        "`check --offline`",
        "a list of operations, then of lines",
        "`phase`, `operation`, `request`; `phase`, `source`, `line`, `outcome`, `result`",
    ),
    (
        "`compare`",
        "the comparisons",
        "`least_effect`, `level`, `estimate`, `groups`, `excluded`, `failed`, `warned_runs`, ...",
    ),
    (
        "`history`",
        "the points and the changes",
        "`folder`, `needed`, `points`, `series`, `changes`, `skipped`, `warnings`",
    ),
    ("`gate`", "the judgement", "`standing`, `runs`, `checks`, `warnings`, `warned_runs`, `excluded`, `comparison`"),
    (
        "`fit`",
        "the fitted models",
        "`scaling`, `best`, `models`, `possible`, `peak`, `peak_standing`, `scaled_speedup`, `robust`, `warnings`",
    ),
    (
        "`cluster up`, `cluster status NAME`",
        "the state of the cluster",
        "`name`, `state`, `store`, `version`, `size`, `limits`, `settings`, `encryption`, `host`, `nodes`,"
        " `deviations`, `folder`, `console`",
    ),
    ("`cluster status`", "a list of states", "those of `cluster status NAME`"),
    (
        "`cluster grow`, `cluster shrink`, `cluster kill`, `cluster pause`, `cluster resume`, `cluster link`",
        "the changes",
        "`name`, `events`",
    ),
    ("`cluster down`", "the end of the cluster", "`name`, `state`, `unreached`"),
    ("`watch`", "a line for each poll", "`time`, `nodes`, `host`, `gaps`"),
    ("`explore`", "the address of the page, which it serves until it is stopped", "`source`, `url`"),
    (
        "`import sample`, `import mapping`, `import queries`, `import ycsb`, `import rally`",
        "the workload",
        "`file`, `text`, `requests`, `left_out`",
    ),
    ("`new`", "the files that it writes", "`workload`, `experiment`, `operations`, `left_out`, `next`"),
    ("`workloads`", "a list of workloads", "`name`, `description`"),
    (
        "`workloads NAME`",
        "the workload",
        "`name`, `description`, `file`, `parameters`, `collections`, `corpora`, `operations`, `phases`",
    ),
    ("`stores`", "a list of stores", "`kind`, `family`, `driver`, `installed`, `versions`, `offered`"),
    ("`calibrate`", "the generator's limits", "`drivers`, `measured`, `machine`, `quick`, `doubt`, `kept`, ..."),
    ("`doctor`", "a list of checks", "`name`, `state`, `finding`, `remedy`"),
)

#: Types of values in the help, and a word for each.
_TYPES = {"<str>": "TEXT", "<int>": "N", "<int range>": "N", "<float>": "NUMBER", "<path>": "PATH"}

_HEAD = """\
<!-- Generated by `python -m docs.generate`. Change the commands, not this page. -->

# Command line

`loadframe --help` lists the commands. `loadframe COMMAND --help` shows the options of a command with examples.
Complete commands, options, workloads, stores and clusters with the tab key after `loadframe --install-completion`
and a restart of your shell (bash, zsh or fish).
"""
_JSON = """\
Every command has `--json`, except `dashboard`, which prints JSON anyway. Standard output then has the result only;
progress, warnings and errors go to standard error as text. Errors keep their exit code. A command that fails before it
has a result prints nothing to standard output. If runs failed, the result includes the failures. `cluster up NAME --
COMMAND` and `watch --web` refuse `--json`: their output is the command's, or a page. Times are in s, rates in 1/s,
sizes in bytes.
"""
_COMMAND_CODE = """\
`loadframe cluster up NAME -- COMMAND` exits with the code of COMMAND, or with 128 and the number of its signal.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD, "## Commands\n", _table(("command", "purpose"), _summaries())]
    for words, command in _commands(typer.main.get_group(app), ()):
        parts.append(_section(words, command))
    codes = [(str(int(code)), code.meaning) for code in ExitCode]
    parts += ["## Exit codes\n", _table(("code", "meaning"), codes), _COMMAND_CODE]
    parts += ["## JSON\n", _JSON, _table(("command", "result", "keys"), RESULTS)]
    parts += ["## Environment variables\n", _table(("variable", "meaning"), _coded(VARIABLES))]
    parts += ["`cluster up NAME -- COMMAND` sets these for COMMAND:\n", _table(("variable", "value"), _coded(GIVEN))]
    return "\n".join(parts)


def _summaries() -> list[tuple[str, str]]:
    return [(f"[`{name}`](#loadframe-{name})", summary) for name, summary in SUMMARIES.items()]


def _coded(rows: dict[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in rows.items()]


def _commands(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield groups and commands by their words, in the order of the help."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*words, name), command
        if hasattr(command, "list_commands"):
            yield from _commands(command, (*words, name))


def _section(words: tuple[str, ...], command: Any) -> str:
    """Return the section of a command: its help, usage, arguments, options by topic, and examples."""
    context = typer.Context(command, info_name=" ".join(("loadframe", *words)))
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"{'#' * (1 + min(len(words), 2))} loadframe {' '.join(words)}\n", _help(command.help)]
    parts.append(f"    loadframe {' '.join(words)} {usage}\n")
    if not hasattr(command, "list_commands"):
        topics: dict[str, list[tuple[str, str]]] = {}
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record is None or record[0] == "--help":
                continue
            argument = parameter.param_type_name == "argument"
            topic = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or "Other options"
            topics.setdefault(topic, []).append((f"`{_typed(record[0])}`", _cell(record[1])))
        order = [title for title in ("Arguments", *Topic, "Other options") if title in topics]
        if sum(map(len, topics.values())) - len(topics.get("Arguments", ())) <= MOST_UNGROUPED:
            topics = {
                "Arguments": topics.get("Arguments", []),
                "Other options": [row for title in order if title != "Arguments" for row in topics[title]],
            }
            order = [title for title in topics if topics[title]]
        for title in order:
            name = "Options" if title == "Other options" and set(order) <= {"Arguments", title} else title
            parts.append(_table((name, "meaning"), topics[title]))
    if examples := _examples(command.epilog):
        parts.append(examples)
    return "\n".join(parts)


def _help(text: str | None) -> str:
    """Return the help as Markdown: one line for each paragraph."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(_code(paragraph).split()) for paragraph in paragraphs) + "\n"


def _examples(epilog: str | None) -> str:
    lines = [line[2:] for line in (epilog or "").replace("\b", "").splitlines() if line.startswith("  ")]
    return "```sh\n" + "\n".join(lines) + "\n```\n" if lines else ""


def _typed(option: str) -> str:
    for kind, word in _TYPES.items():
        option = option.replace(kind, word)
    return option.replace("|", "\\|")


def _code(text: str) -> str:
    """Put options and words in capital letters with `=` into backticks, unless they are in backticks."""
    pieces = re.split(r"(`[^`]*`)", text)
    mark = re.compile(r"(?<![\w-])(--[a-z][\w-]*|LOADFRAME_[A-Z_]+)")
    return "".join(piece if piece.startswith("`") else mark.sub(r"`\1`", piece) for piece in pieces)


def _cell(text: str) -> str:
    text = text.replace("[required]", "Required.").replace("|", "\\|")
    text = re.sub(r"\s*\[(?=[^\]]*(?:default: |<=|>=))([^\]]*)\]", lambda match: f" {_limits(match[1])}", text)
    return _code(re.sub(r"\s+", " ", text).strip().replace("<", "&lt;"))


def _limits(text: str) -> str:
    """Return default and range, such as `default: 1; 1<=x<=8`, as sentences."""
    text = re.sub(r"(\S+)<=x<=(\S+)", r"\1 to \2", re.sub(r"x>=(\S+)", r"at least \1", text))
    return " ".join(
        f"{part.strip().capitalize()}." if part.strip()[0] in "da" else f"{part}." for part in text.split(";")
    )


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
