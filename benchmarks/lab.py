"""Generate the pages of `lab/`: output of simulations, benchmarks, fits and experiments, with date, commit, machine.

    python -m benchmarks.lab simulate_gate                               lab/simulations/gate.md
    python -m benchmarks.lab simulate_curves --trials 20                 the same with fewer trials
    python -m benchmarks.lab null_driver                                 lab/benchmarks/null_driver.md
    python -m benchmarks.lab experiments/sharded-mongodb/fit-small.csv   lab/studies/sharded-mongodb/fit-small.md
    python -m benchmarks.lab experiments/tour/capacity.yaml              run it, then lab/studies/tour/capacity.md
    python -m benchmarks.lab experiments/tour/capacity.yaml --from results/tour-capacity    from finished runs
    python -m benchmarks.lab                                             lab/README.md only

Each call also writes lab/README.md, which lists the pages, and the sources without a page.
"""

import argparse
import ast
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from benchmarks.__main__ import NAMES

from loadframe.base.errors import BadInput, LoadframeError

ROOT = Path(__file__).parents[1]
LAB = ROOT / "lab"
SIMULATIONS = sorted(path.stem for path in Path(__file__).parent.glob("simulate_*.py"))
_STAMP = re.compile(r"^Generated on (\S+) at commit (\S+)", re.M)
#: Groups of pages: the folder, its title, and a sentence about its sources.
_GROUPS = {
    "simulations": (
        "Simulations",
        "Coverage of intervals and error rates of decisions on simulated data with known truth.",
    ),
    "benchmarks": (
        "Benchmarks",
        "The load generator against its limits and other tools. Figures depend on the machine and its load.",
    ),
    "studies": (
        "Studies",
        "Reports of the experiments in `experiments/`, with their invalid runs, and fits of published figures.",
    ),
}


@dataclass(frozen=True)
class Source:
    """A source of a page: a script, CSV file or experiment file."""

    name: str  #: as in the command line
    page: Path
    about: str
    command: tuple[str, ...]  #: prints the page's content
    before: tuple[tuple[str, ...], ...] = ()  #: run first; their output is not shown
    options: str = ""  #: after the name in the command line


def find(name: str, runs: Path | None = None, trials: int | None = None) -> Source:
    """Return the source of that name. `runs` is the folder with finished runs of an experiment, not to run it.

    `trials` is the number of trials of a simulation, else its default.
    """
    if name in SIMULATIONS:
        short = name.removeprefix("simulate_")
        module = Path(__file__).with_name(f"{name}.py")
        words = () if trials is None else (str(trials),)
        return Source(
            name,
            LAB / "simulations" / f"{short}.md",
            _first_sentences(module),
            (sys.executable, "-m", f"benchmarks.{name}", *words),
            options="" if trials is None else f" --trials {trials}",
        )
    if name in NAMES:
        module = Path(__file__).with_name(f"measure_{name}.py")
        return Source(
            name,
            LAB / "benchmarks" / f"{name}.md",
            _first_sentences(module),
            (sys.executable, "-m", "benchmarks", name),
        )
    file = (ROOT / name).resolve()
    if file.suffix not in (".csv", ".yaml") or not file.is_file() or not file.is_relative_to(ROOT / "experiments"):
        raise BadInput(
            f"unknown source {name!r}",
            remedy="give a simulation, a benchmark, or a file in experiments/; see lab/README.md",
        )
    page = LAB / "studies" / file.parent.name / f"{file.stem}.md"
    shown = str(file.relative_to(ROOT))
    if file.suffix == ".csv":
        return Source(shown, page, f"Fit of `{shown}`.", ("loadframe", "fit", shown))
    folder = runs or Path("results") / f"lab-{file.parent.name}-{file.stem}"
    run = ("loadframe", "run", shown, "--output", str(folder), "--yes")
    before = () if runs else tuple(run if "run" in command else command for command in _commands(file)) or (run,)
    return Source(shown, page, _comment(file), ("loadframe", "report", str(folder)), before)


def write_page(source: Source) -> str | None:
    """Run the source and write its page. Return the error if its command failed; the page then shows the output.

    No page is written if a command before it is refused (exit status 2).
    """
    started, load = time.monotonic(), os.getloadavg()[0]
    refused = [before for before in source.before if subprocess.run(before, cwd=ROOT, check=False).returncode == 2]
    if refused:
        return f"not written, because this was refused: {' '.join(refused[0])}"
    done = subprocess.run(
        source.command,
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "140", "PYTHONUNBUFFERED": "1"},
    )
    seconds = time.monotonic() - started
    output = re.sub(r" +$", "", done.stdout.replace(f"{ROOT}/", ""), flags=re.M).rstrip()
    again = f"python -m benchmarks.lab {source.name}{source.options}"
    shown = " ".join(Path(word).name if word == sys.executable else word for word in source.command)
    text = f"""# {source.page.stem}

{source.about}

```console
$ {shown}
{output}
```

Generated on {datetime.now(UTC):%Y-%m-%d} at commit {_commit()} by `{again}`.
{_machine()}. Load average at the start: {load:.1f}. Duration: {seconds:.0f} s. Exit code: {done.returncode}.
"""
    source.page.parent.mkdir(parents=True, exist_ok=True)
    source.page.write_text(text)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else None


def index() -> str:
    """Return the text of lab/README.md."""
    lines = [
        "# Lab",
        "",
        "Results that a command generated. Each page ends with its date, commit and machine.",
        "Generate a page: `python -m benchmarks.lab NAME`. Edit none by hand.",
        "Benchmarks and experiments need an idle machine; simulations and fits do not.",
    ]
    for folder, (title, about) in _GROUPS.items():
        lines += ["", f"## {title}", "", about, ""]
        pages = sorted((LAB / folder).rglob("*.md"))
        if pages:
            lines += ["| page | date | commit |", "|---|---|---|"]
        for page in pages:
            stamp = _STAMP.search(page.read_text())
            if stamp is None:
                raise BadInput("the page lacks its date and commit", where=str(page), remedy="generate it again")
            place = page.relative_to(LAB)
            lines.append(f"| [{place.relative_to(folder).with_suffix('')}]({place}) | {stamp[1]} | {stamp[2]} |")
        missing = [source.name for source in sources(folder) if not source.page.exists()]
        if missing:
            lines += [*([""] if pages else []), f"Not run: {', '.join(f'`{name}`' for name in missing)}."]
    lines += [
        "",
        "## Reports",
        "",
        "Screenshots: [reports before and after their redesign](reports/README.md).",
    ]
    return "\n".join(lines) + "\n"


def sources(folder: str) -> list[Source]:
    """Return the sources of a group's pages. Experiments at the scale of a study are left out: they need machines."""
    if folder == "studies":
        files = [path for path in (ROOT / "experiments").glob("*/*") if path.suffix == ".yaml"]
        small = [path for path in files if path.stem.startswith("small-") or path.parent.name == "tour"]
        fits = (ROOT / "experiments").glob("*/fit-*.csv")
        names = [str(path.relative_to(ROOT)) for path in sorted([*small, *fits])]
    else:
        names = SIMULATIONS if folder == "simulations" else NAMES
    return [find(name) for name in names]


def main(words: Sequence[str]) -> int:
    """Write the pages that are named, and the index; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab", description="Generate pages of lab/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="simulation, benchmark, or file in experiments/")
    parser.add_argument("--from", dest="runs", type=Path, help="folder with the finished runs of one experiment")
    parser.add_argument("--trials", type=int, help="trials of each row of a simulation (default: that of its script)")
    given = parser.parse_args(words)
    status = 0
    for source in [find(name, given.runs, given.trials) for name in given.names]:
        print(source.name, flush=True)
        if error := write_page(source):
            print(f"lab: {source.name}: {error}", file=sys.stderr)
            status = 1
    LAB.mkdir(exist_ok=True)
    (LAB / "README.md").write_text(index())
    return status


def _first_sentences(module: Path) -> str:
    """Return the first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def _commands(file: Path) -> list[tuple[str, ...]]:
    """Return the commands in the comment of an experiment that needs a named cluster, else none."""
    lines = re.findall(r"^#     (loadframe .*)$", file.read_text(), re.M)
    return [tuple(shlex.split(line)) for line in lines] if any("cluster up" in line for line in lines) else []


def _comment(file: Path) -> str:
    """Return the comment at the top of an experiment file."""
    lines = []
    for line in file.read_text().splitlines():
        if not line.startswith("#") or line.strip() == "#":
            if lines:
                break
            continue
        if "yaml-language-server" not in line:
            lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def _commit() -> str:
    """Return the short hash of the last commit of the source files, with `+` if they differ from it."""
    git, sources = ("git", "-C", str(ROOT)), ("--", "python", "crates", "benchmarks", "experiments", "examples")
    last, changed = (
        subprocess.run([*git, *command, *sources], capture_output=True, text=True, check=True).stdout.strip()
        for command in (("log", "-1", "--format=%h"), ("status", "--porcelain", "--untracked-files=no"))
    )
    return f"{last}{'+' if changed else ''}"


def _machine() -> str:
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    memory = psutil.virtual_memory().total / 2**30
    cores = len(os.sched_getaffinity(0))
    model = models[0] if models else platform.machine()
    return f"Machine: {model}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LoadframeError as error:
        print(f"lab: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
