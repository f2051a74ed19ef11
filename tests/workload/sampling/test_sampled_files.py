"""`loadframe import sample` on files: distributions, anonymity, kept fields, and unusable files."""

import bz2
import csv
import gzip
import json
import random
import re
import statistics
from collections import Counter
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from commands import TRIPS, within
from loadframe.workload import load_workload
from loadframe.workload.sampling import Profile, documents

#: Texts that must be absent from all results, in upper and lower case.
SECRETS = [
    "alice.planted@example.com",
    "planted",
    "Zyxwoman",
    "4929-1234-5678-9012",
    "4929123456789012",
    "79927398713",
    "DE44500105175407324931",
    "550e8400-e29b-41d4-a716-446655440000",
    "hunter2secret",
    "s3cr3t-token-abcdef",
    "203.0.113.77",
    "Évariste",
]


def document(number: int, rng: random.Random) -> dict:
    """Return a document with secrets in all kinds of values. Some secrets repeat, others are unique."""
    secret = SECRETS[number % len(SECRETS)]
    return {
        "id": f"user-{number:08}-planted",
        "email": f"alice{number}.planted@example.com",
        "card": 4929123456789012,
        "phone": 79927398713 if number % 2 else rng.randint(10**10, 10**11),
        "balance": 4929123456.78 if number % 3 else rng.random() * 1e9,
        "color": rng.choice(["Zyxwoman", "hunter2secret", "plain"]),
        "note": f"Dear Zyxwoman, the card {secret} of Évariste is planted at line {number}",
        "tags": [secret, "planted"][: number % 3],
        "ip": "203.0.113.77",
        "nested": {"deep": [{"value": secret, "number": 79927398713}], "uuid": SECRETS[7]},
        "by_user": {"alice.planted@example.com": 1, "4929123456789012": {"x": secret}},
        **({"rare": secret} if number % 10 == 0 else {}),
    }


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sampled(*words: object) -> None:
    status, _, errors = within("import", "sample", *words, "--output", "made.yaml")
    assert status == 0, errors


def generated() -> list[dict]:
    return [json.loads(line) for line in Path("made-documents.ndjson").read_text().splitlines()]


def found_secrets(folder: Path, inputs: set[str]) -> set[str]:
    """Return the secrets that occur in the files of a folder, except its inputs."""
    texts = [path.read_text().casefold() for path in folder.iterdir() if path.name not in inputs]
    assert texts
    return {secret for secret in SECRETS for text in texts if secret.casefold() in text}


def write(name: str, documents: list[dict]) -> None:
    if name.endswith(".csv"):
        flat = [{key: value for key, value in d.items() if not isinstance(value, dict | list)} for d in documents]
        with Path(name).open("w", newline="") as file:
            rows = csv.DictWriter(file, list(flat[0]))
            rows.writeheader()
            rows.writerows(flat)
    elif name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist([{**d, "by_user": None} for d in documents]), name)
    else:
        opened = {".gz": gzip.open, ".bz2": bz2.open}.get(Path(name).suffix, open)
        with opened(name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(document) + "\n" for document in documents)


@pytest.mark.parametrize("name", ["users.ndjson", "users.json.gz", "users.ndjson.bz2", "users.csv", "users.parquet"])
def test_no_planted_secret_occurs_in_the_result(folder, name):
    rng = random.Random(5)
    write(name, [document(number, rng) for number in range(300)])
    sampled(name, "--generate", 900)
    assert len(generated()) == 900
    assert found_secrets(folder, {name}) == set()


def test_a_single_document_reveals_no_secret(folder):
    write("one.ndjson", [document(1, random.Random(1))])
    sampled("one.ndjson", "--generate", 50)
    assert found_secrets(folder, {"one.ndjson"}) == set()


@pytest.mark.parametrize("others", [0, 60])
@pytest.mark.parametrize(
    ("value", "part"), [(4929123456789012, "4929123"), (4929123456.78, "4929123"), ("52.520008,13.404954", "52.5200")]
)
def test_a_number_that_many_documents_share_is_not_replaced_by_its_neighbour(value, part, others):
    rng = random.Random(4)

    def other() -> object:
        if isinstance(value, str):
            return f"{rng.uniform(10, 80):.6f},{rng.uniform(10, 80):.6f}"
        return type(value)(value * rng.uniform(0.2, 0.9))

    made = list(Profile([{"x": value}] * 40 + [{"x": other()} for _ in range(others)]).documents(200))
    assert [d for d in made if str(d["x"]).startswith(part)] == []


KEYS = ["10.0.0.5", "https://planted.example/x", "fe80::1:2", "+49 (301) 9018-20", "DE44 5001 0517 5407 3249 31"]


def test_keys_that_are_addresses_or_long_numbers_become_pseudonyms():
    made = list(Profile([{"by": {key: 1, "total": 2}} for key in KEYS]).documents(50))
    assert {"total"} < {key for d in made for key in d["by"]}
    assert not set(KEYS) & {key for d in made for key in d["by"]}


@pytest.mark.parametrize(
    "lines",
    [
        ['{"a": 12345678901234567890}'] * 9,
        ['{"a": 1' + "0" * 400 + "}"] * 9,
        ['{"a": 1' + "0" * 400 + "}", '{"a": -2' + "0" * 400 + "}"],
        [f'{{"a": 1.7{number}e308}}' for number in range(9)],
        ['{"a": "x\\ud800planted", "b\\udfff": ["\\ud83d\\ude00"]}'] * 3,
        ['{"a": "x\\u0000planted", "b": "\\u0000"}'] * 3,
        ['{"a": "planted", "a": "x"}', "{}"],
        ["\ufeff" + '{"a": "planted"}'],
    ],
)
def test_unusual_values_become_valid_documents(lines):
    Path("odd.ndjson").write_text("\n".join(lines))
    sampled("odd.ndjson", "--generate", 30)
    text = Path("made-documents.ndjson").read_text()
    assert len([documents.parsed(line) for line in text.splitlines()]) == 30
    assert "planted" not in text
    assert "12345678901234567890" not in text


def test_halves_of_surrogate_pairs_are_replaced_in_documents_of_a_store():
    sampled_ones = [{"a\ud83d": ["\ude00x", {"b": "😀"}]}]
    assert documents.storable(sampled_ones) == [{"a?": ["?x", {"b": "😀"}]}]


def test_a_column_without_a_name_gets_one():
    Path("frame.csv").write_text(",color\n0,red\n1,blue\n")
    sampled("frame.csv")
    assert {key for d in generated() for key in d} == {"column_1", "color"}


def test_a_date_that_python_lacks_is_refused():
    moments = pyarrow.array([2**62], type=pyarrow.timestamp("us"))
    parquet.write_table(pyarrow.table({"at": moments}), "far.parquet")
    status, _, errors = within("import", "sample", "far.parquet")
    assert status == 2
    assert "far.parquet: cannot read the Parquet file" in errors


def test_a_line_that_exceeds_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(documents, "_LONGEST_LINE", 2**20)
    for name in ("long.ndjson", "long.csv"):
        Path(name).write_text('{"a": 1}\n{"a": "' + "x" * 2**20 + '"}\n')
        status, _, errors = within("import", "sample", name)
        assert status == 2
        assert f"{name}:2: the line is longer than 1 MiB" in errors


@pytest.mark.parametrize("name", ["made.yaml", "made-documents.ndjson"])
def test_a_link_that_leads_nowhere_is_not_written_through(folder, name):
    Path("one.ndjson").write_text('{"a": 1}\n')
    Path(name).symlink_to(folder / "elsewhere")
    for command in (("import", "sample"), ("new",)):
        status, _, errors = within(*command, "one.ndjson", "--output", "made.yaml")
        assert status == 2
        assert f"{name}: it exists already" in errors
    assert {path.name for path in folder.iterdir()} == {"one.ndjson", name}


def test_a_kept_field_of_objects_is_refused():
    Path("one.ndjson").write_text('{"a": {"b": [{"c": "planted"}]}}\n')
    status, _, errors = within("import", "sample", "one.ndjson", "--keep", "a.b")
    assert status == 2
    assert "--keep a.b: the field holds no texts, numbers or booleans" in errors
    assert "such as a.b.c" in errors
    sampled("one.ndjson", "--keep", "a.b.c")
    assert generated() == [{"a": {"b": [{"c": "planted"}]}}]


def test_a_kept_field_has_its_original_values_and_others_do_not(folder):
    rng = random.Random(5)
    write("users.ndjson", [document(number, rng) for number in range(300)])
    sampled("users.ndjson", "--keep", "color")
    assert {d["color"] for d in generated()} == {"Zyxwoman", "hunter2secret", "plain"}
    assert found_secrets(folder, {"users.ndjson"}) == {"Zyxwoman", "hunter2secret"}


def test_generated_documents_follow_the_sampled_distributions():
    rng = random.Random(3)
    documents = [
        {
            "amount": round(rng.lognormvariate(3, 0.5), 2),
            "when": f"2024-{rng.randint(1, 6):02}-{rng.randint(1, 28):02}",
            "state": rng.choices(["open", "paid", "void"], [70, 25, 5])[0],
            "text": " ".join(rng.choices(["lorem", "ipsum", "dolor", "sit"], [8, 4, 2, 1], k=rng.randint(5, 15))),
            "items": [{"count": rng.randint(1, 5)} for _ in range(rng.randint(0, 4))],
            **({"discount": rng.randint(0, 1000)} if rng.random() < 0.3 else {}),
        }
        for _ in range(2000)
    ]
    made = list(Profile(documents).documents(2000))

    def quantiles(values):
        return statistics.quantiles(values, n=10)

    assert quantiles([d["amount"] for d in made]) == pytest.approx(quantiles([d["amount"] for d in documents]), rel=0.1)
    assert all(round(d["amount"], 2) == d["amount"] for d in made)
    assert min(d["when"] for d in made) >= "2024-01-01"
    assert max(d["when"] for d in made) <= "2024-06-28"
    states = Counter(d["state"] for d in made)
    assert [count / 2000 for _, count in states.most_common()] == pytest.approx([0.70, 0.25, 0.05], abs=0.04)
    assert {len(state) for state in states} == {4}
    words = [len(d["text"].split()) for d in made]
    assert statistics.mean(words) == pytest.approx(10, abs=0.5)
    vocabulary = Counter(word for d in made for word in d["text"].split())
    assert len(vocabulary) == 4
    assert vocabulary.most_common(1)[0][1] / sum(vocabulary.values()) == pytest.approx(8 / 15, abs=0.03)
    assert statistics.mean(len(d["items"]) for d in made) == pytest.approx(2, abs=0.15)
    assert {item["count"] for d in made for item in d["items"]} == {1, 2, 3, 4, 5}
    assert sum("discount" in d for d in made) / 2000 == pytest.approx(0.3, abs=0.05)


@pytest.mark.slow
def test_the_same_seed_generates_the_same_documents(folder):
    sampled(TRIPS)
    first = Path("made-documents.ndjson").read_text()
    for file in folder.iterdir():
        file.unlink()
    sampled(TRIPS)
    assert Path("made-documents.ndjson").read_text() == first
    for file in folder.iterdir():
        file.unlink()
    sampled(TRIPS, "--seed", 2)
    assert Path("made-documents.ndjson").read_text() != first


def test_shared_parts_of_values_stay_shared():
    rng = random.Random(2)
    documents = [
        {
            "url": f"https://shop.example.com/item/{rng.randrange(10**6)}",
            "stamp": str(1_700_000_000_000_000_000 + rng.randrange(10**9)),
        }
        for _ in range(500)
    ]
    made = list(Profile(documents).documents(500))
    shapes = [re.fullmatch(r"(\w+://\w+\.\w+\.\w+/\w+/)(\d+)", d["url"]) for d in made]
    assert len({shape[1] for shape in shapes}) == 1
    assert "example" not in shapes[0][1]
    assert len({shape[2] for shape in shapes}) > 400
    assert len({d["stamp"][:9] for d in made}) == 1
    assert not {d["stamp"] for d in made} & {d["stamp"] for d in documents}


@pytest.mark.slow
def test_ids_do_not_repeat():
    documents = [{"id": number * 3, "key": f"k{number % 50}"} for number in range(500)]
    made = list(Profile(documents).documents(5000, ["id"]))
    assert len({d["id"] for d in made}) == 5000


def test_numbered_texts_do_not_repeat_as_ids():
    documents = [{"id": str(number)} for number in range(1, 12)]
    made = list(Profile(documents, keep=["id"]).documents(2000, ["id"]))
    assert len({d["id"] for d in made}) == 2000


def test_ids_of_several_kinds_do_not_repeat():
    documents = [{"id": number} for number in (1, 2, "a", "b")]
    made = list(Profile(documents, keep=["id"]).documents(500, ["id"]))
    assert len({d["id"] for d in made}) == 500


def test_the_workload_is_valid_for_the_stores_that_it_names(folder):
    write("users.ndjson", [document(number, random.Random(5)) | {"by_user": {}} for number in range(100)])
    sampled("users.ndjson")
    workload = load_workload("./made.yaml")
    for family in ("elasticsearch", "postgresql", "cassandra", "mongodb", "redis", "couchbase"):
        resolved = workload.for_family(family, 1)
        assert [phase.name for phase in resolved.phases if not phase.prepares] == ["queries"]
    columns = workload.file.collections["made"].postgresql.columns
    assert columns["color"] == "text"
    assert columns["nested"] == "jsonb"


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.ndjson", b"", "the file is without documents"),
        ("a.csv", b"a,b\n", "the file is without documents"),
        ("a.json", b'[{"a": 1}]\n', "a.json:1: this line is not a JSON object"),
        ("a.json", b'{"a": 1}\n{"a": }\n', "a.json:2: invalid JSON"),
        ("a.json", b'{"a": NaN}\n', "a.json:1: invalid JSON"),
        ("a.json", b'{"a": 1' + b"0" * 5000 + b"}", "a.json:1: invalid JSON: number out of range"),
        ("a.json", b'{"a": 1}\n{"a": -1e999}', "a.json:2: invalid JSON: number out of range"),
        ("a.json", b'{"a": 1}\n{"": 1}', "a.json:2: a field of the document has an empty name"),
        ("a.json", b'{"a": {"b": [{"": 1}]}}', "a.json:1: a field of a.b has an empty name"),
        ("a.json", b'{"a":' * 5000 + b"1" + b"}" * 5000, "a.json:1: nested too deeply"),
        ("a.json", b'{"a":' * 500 + b"1" + b"}" * 500, "nested too deeply"),
        ("a.json", b'{"a": "\0"}', "a.json:1: invalid JSON"),
        ("a.json", b"%PDF-1.4\n", "a.json:1: this line is not a JSON object"),
        ("a.json", b"\x89PNG\r\n\x1a\n\xff", "this is not UTF-8 text"),
        ("a.json.gz", b"not gzip", "cannot read the file"),
        ("a.csv", b"a,b\n1,2,3\n", "a.csv:2: 3 values for 2 columns"),
        ("a.parquet", b"PAR1broken", "cannot read the Parquet file"),
    ],
)
def test_an_unusable_file_is_one_message(folder, name, content, what):
    Path(name).write_bytes(content)
    status, output, errors = within("import", "sample", name)
    assert (status, output) == (2, "")
    assert what in errors
    assert "Traceback" not in errors
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_missing_file_an_unknown_field_and_an_existing_result_are_refused(folder):
    assert within("import", "sample", "none.json")[0] == 2
    status, _, errors = within("import", "sample", TRIPS, "--keep", "vendor")
    assert status == 2
    assert "vendor_id" in errors
    Path("made-documents.ndjson").write_text("mine")
    status, _, errors = within("import", "sample", TRIPS, "--output", "made.yaml")
    assert status == 2
    assert "it exists already" in errors
    assert Path("made-documents.ndjson").read_text() == "mine"
    assert not Path("made.yaml").exists()
