"""A client that encrypts values, on a real node: the same searches find the same documents as without."""

import json
from itertools import product

import httpx
import pytest

from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.session import Session
from loadframe.load import Generator, render_operations
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

SEEDS = range(1, 6)

#: Each type with an encrypted form, both ends of ranges, and literals as well as drawn values.
OWN = """\
workload: own
parameters: {encrypted: false}
client_encryption: {enabled: "${encrypted}"}
collections:
  own:
    elasticsearch:
      settings: {number_of_shards: 2, number_of_replicas: 0}
      mappings:
        dynamic: strict
        properties:
          name: {type: keyword}
          paid: {type: boolean}
          n: {type: integer}
          amount: {type: scaled_float, scaling_factor: 100}
          share: {type: double}
          day: {type: date, format: yyyy-MM-dd}
          at: {type: date, format: "yyyy-MM-dd HH:mm:ss"}
          inside: {properties: {n: {type: long}}}
corpora: {own: {file: own.ndjson}}
variables:
  name: {choice: {values: [a name of Ann, a name of Bob, nobody], weights: [2, 2, 1]}}
  n: {uniform: [-40, 40]}
  more: {linear: {of: n, plus: 9}}
  share: {uniform: [0.0, 1.0]}
  day: {date: {from: 2015-01-01, to: 2015-03-01, format: "%Y-%m-%d"}}
  who: {choice: [Ann, Bob]}
operations:
  load: {bulk: {collection: own, corpus: own, size: 1000}}
  refresh: {refresh: {collection: own}}
  term: {search: {collection: own, size: 1000, body: {query: {term: {name: "${name}"}}}}}
  made: {search: {collection: own, size: 1000, body: {query: {term: {name: {value: "a name of ${who}"}}}}}}
  paid: {search: {collection: own, size: 1000, body: {query: {term: {paid: true}}}}}
  number: {search: {collection: own, size: 1000, body: {query: {terms: {n: [1, "${n}", -3]}}}}}
  exact: {search: {collection: own, size: 1000, body: {query: {term: {amount: 12.34}}}}}
  from_to: {search: {collection: own, size: 1000, body: {query: {range: {n: {gt: "${n}", lte: "${more}"}}}}}}
  within: {search: {collection: own, size: 1000, body: {query: {range: {inside.n: {gte: "${n}", lt: "${more}"}}}}}}
  cents: {search: {collection: own, size: 1000, body: {query: {range: {amount: {gt: 5.25, lte: 20.5}}}}}}
  shares: {search: {collection: own, size: 1000, body: {query: {range: {share: {gte: "${share}"}}}}}}
  days: {search: {collection: own, size: 1000, body: {query: {range: {day: {gt: "${day}"}}}}}}
  until: {search: {collection: own, size: 1000, body: {query: {range: {at: {lte: "2015-02-03", format: yyyy-MM-dd}}}}}}
  since: {search: {collection: own, size: 1000, body: {query: {range: {at: {gte: "2015-02-03 12:00:00"}}}}}}
  sorted:
    search:
      collection: own
      size: 1000
      body:
        query:
          bool:
            filter: [{exists: {field: share}}, {constant_score: {filter: {range: {n: {lt: "${n}"}}}}}]
            must_not: {term: {name: nobody}}
        sort: [{at: desc}, amount, n]
        aggs: {names: {terms: {field: name}, aggs: {last: {max: {field: n}}}}}
phases:
  - {name: load, prepares: true, operation: load, clients: 1, until: exhausted}
  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}
  - name: searches
    journey: [term, made, paid, number, exact, from_to, within, cents, shares, days, until, since, sorted]
    clients: 1
    requests: 13
"""
OWN_DOCUMENTS = [
    {
        "name": ("a name of Ann", "a name of Bob", "nobody")[n % 3],
        "paid": n % 2 == 0,
        "n": n % 97 - 48,
        "amount": round(n * 0.617 - 10, 2) if n % 50 else 12.34,
        "share": (n * 7919 % 100_000) / 100_000,
        "day": f"2015-{n % 2 + 1:02}-{n % 28 + 1:02}",
        "at": f"2015-{n % 3 + 1:02}-{n % 5 + 1:02} {n % 24:02}:{n % 60:02}:{n * 7 % 60:02}",
        "inside": {"n": n % 89 - 44},
    }
    for n in range(400)
]


def fill(node, tmp_path, resolved):
    session = Session(node, resolved, seed=1, generator=Generator(), listener=Listener())
    session.create_collections(replace=True)
    session.prepare([phase for phase in resolved.phases if phase.prepares], tmp_path)


def sent(client, request):
    """Send a request as it was rendered, and return the whole answer."""
    line, body = request.split("\n\n", 1)
    method, target, _ = line.split()
    answer = client.request(method, target, json=json.loads(body))
    return answer.raise_for_status().json()


def numbers_found(node, tmp_path, resolved, documents):
    """Fill a collection and search it with several seeds; return the numbers of the documents of each search.

    `documents` returns the documents that were sent, in the order of the plain ones.
    """
    fill(node, tmp_path, resolved)
    numbers = {json.dumps(document): number for number, document in enumerate(documents())}
    answers = {}
    searches = [phase for phase in resolved.phases if not phase.prepares]
    with httpx.Client(base_url=f"http://{node.addresses[0]}", timeout=60) as client:
        for phase, seed in product(searches, SEEDS):
            plan = phase.plan(seed=seed, hosts=node.addresses, driver=node.store.driver, target=node.target())
            for operation, request in render_operations(plan):
                answered = sent(client, request)
                hits = [numbers[json.dumps(hit["_source"])] for hit in answered["hits"]["hits"]]
                aggregations = answered.get("aggregations", {}).values()
                buckets = [bucket["doc_count"] for made in aggregations for bucket in made["buckets"]]
                total = answered["hits"]["total"]["value"]
                answers[operation, seed] = (total, hits if operation == "sorted" else sorted(hits), buckets)
    return answers


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def encrypted_documents(tmp_path, monkeypatch):
    """Return a function that reads the documents of the encrypted corpus."""
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path / "cache"))

    def read():
        (file,) = (tmp_path / "cache" / "corpora").glob("*-encrypted.ndjson")
        return lines(file)

    return read


@pytest.mark.parametrize(
    ("workload", "settings"),
    [("mri/term_part,term_patient,range_age,combined", {"size": 1000}), ("nyc_taxis/range_1000", {"low": 7})],
)
def test_searches_of_the_library_find_the_same_documents_encrypted(
    node, tmp_path, encrypted_documents, workload, settings
):
    generated = load_workload(workload, {"documents": 400}).for_family("elasticsearch", 1)
    fill(node, tmp_path, generated)
    hits = node.store.request(node.addresses, "GET", f"/{generated.name}/_search?size=1000")["hits"]["hits"]
    file = tmp_path / "plain.ndjson"
    file.write_text("".join(json.dumps(hit["_source"]) + "\n" for hit in hits))
    plain, encrypted = (
        load_workload(workload, {**settings, "file": str(file), "encrypted": on}).for_family("elasticsearch", 1)
        for on in (False, True)
    )
    expected = numbers_found(node, tmp_path, plain, lambda: lines(file))
    assert numbers_found(node, tmp_path, encrypted, encrypted_documents) == expected
    assert all(total for total, _, _ in expected.values())


def test_every_type_and_every_end_of_a_range_finds_the_same_documents_encrypted(node, tmp_path, encrypted_documents):
    (tmp_path / "own.ndjson").write_text("".join(json.dumps(document) + "\n" for document in OWN_DOCUMENTS))
    (tmp_path / "own.yaml").write_text(OWN)
    plain, encrypted = (
        load_workload(str(tmp_path / "own.yaml"), {"encrypted": on}).for_family("elasticsearch", 1)
        for on in (False, True)
    )
    expected = numbers_found(node, tmp_path, plain, lambda: OWN_DOCUMENTS)
    assert numbers_found(node, tmp_path, encrypted, encrypted_documents) == expected
    assert {operation for operation, _ in expected} == {op for (op, _), (total, _, _) in expected.items() if total}
    mapped = node.store.request(node.addresses, "GET", "/own/_mapping")["own"]["mappings"]["properties"]
    assert {name: field.get("type") for name, field in mapped.items() if name != "inside"} == {
        "name": "keyword",
        "paid": "keyword",
        **dict.fromkeys(("n", "amount", "share", "day", "at"), "long"),
    }
