"""A program that uses every part of the library; type checkers accept it, and nothing runs it."""

from pathlib import Path

import loadframe


def heard(progress: loadframe.Progress) -> None:
    print(progress.event, progress.text, progress.throughput or 0.0)


def measure(folder: Path) -> float:
    workload = loadframe.Workload(workload="w", operations={}, phases=[])
    with loadframe.Cluster("sim", nodes=2) as cluster:
        run = loadframe.bench(workload, cluster=cluster, output=folder / "run", duration="2s", progress=heard)
        added: list[str] = cluster.grow()
        print(added, cluster.size + 1)
    rows: int = run.seconds.to_arrow().num_rows
    height: int = run.seconds.to_polars().height
    times: loadframe.Times = run.response_times(operation="read", start=1.0)
    run.plot.over_time().save(folder / "run.svg")
    return rows + height + times.percentile(99) + (times + run.service_times()).mean


def take_in(folder: Path) -> int:
    ingested = loadframe.ingest("log.yaml", [folder / "events.ndjson"], store="sim", user="ann", progress=heard)
    imported: loadframe.Imported = loadframe.import_sample(folder / "orders.csv", keep=["id"], generate=10)
    workload: loadframe.Workload = loadframe.import_rally(folder).workload
    print(workload.name, imported.left_out, loadframe.import_ycsb("a").save(folder / "a.yaml").name)
    print(loadframe.import_mapping(hosts=["a:1"], collection="c", insecure=True).text, loadframe.import_queries("s"))
    doubt: str | None = loadframe.calibrate(quick=True, drivers=["http"]).doubt
    changes: int = len(loadframe.history(folder, measures="p99").changes)
    ingested.require()
    return ingested.indexed + changes + len(doubt or "")


def read(folder: Path) -> str:
    opened = loadframe.open(folder)
    if isinstance(opened, loadframe.Experiment):
        for run in opened:
            print(run.name.upper(), run.valid)
        saved: Path = opened.report().save(folder / "report.html")
        exported: list[Path] = opened.export(folder / "figures", formats=["pdf", "latex"]).files
        print(exported, loadframe.convert(opened, "otava").save(folder / "runs.csv"), opened.report(beside=opened).html)
        return opened["b1"].status + opened.plot["capacity"].svg + saved.name
    print(opened.export(folder, formats="csv"), opened.send_records("i", hosts=["a:1"], to="osb", user="ann")["race"])
    return opened.status


def judge(old: loadframe.Run, new: loadframe.Run) -> bool:
    experiment = loadframe.run(loadframe.Experiment({"experiment": "e"}), strict=True)
    print(loadframe.plan(experiment, noise=0.1, budget=9).as_dict()["best"])
    contrasts = loadframe.compare(old, new, measures=["p99"]).contrasts
    fit = loadframe.fit({1: 10.0, 2: 18.0})
    checks = loadframe.check("ycsb/c", offline=True)
    sustained = loadframe.capacity(experiment).capacities
    try:
        loadframe.gate(new, baseline=old, bounds=["p99<=50ms"]).require()
    except loadframe.LoadframeError as error:
        print(error.what, error.where, error.remedy)
    return checks.passed and len(contrasts) + len(sustained) > fit.predict(4)
