"""Generated documents resemble their neighbours as sampled ones do, but have no combination of a sampled document."""

import random
import zlib
from itertools import pairwise

import pytest

from loadframe.workload.sampling import Profile, documents
from loadframe.workload.sampling.pseudonyms import rearranged, shared_pairs

RNG = random.Random(8)
#: Groups of 50 neighbours with the same shop and version, in the order of days.
ORDERED = [
    {
        "day": f"2024-01-{1 + number // 100:02}",
        "shop": f"shop number {number // 50}",
        "tags": ["new", "sold"] if number % 2 else ["old"],
        "note": f"sent by shop {number // 50} to {RNG.choice(['Rome', 'Oslo', 'Bonn'])} {RNG.random()}",
        "count": number,
    }
    for number in range(3000)
]


def changes(rows_read: list[dict], key: str) -> int:
    return sum(first[key] != second[key] for first, second in pairwise(rows_read))


def distinct(rows_read: list[dict], key: str) -> int:
    return len({str(d[key]) for d in rows_read})


@pytest.mark.parametrize("count", [1500, 3000, 9000])
def test_neighbours_resemble_each_other(count):
    made = list(Profile(ORDERED).documents(count))
    assert len(made) == count
    assert changes(made, "shop") < count / 8
    assert changes(made, "day") < count / 8
    assert made[0]["day"] < made[count // 2]["day"] < made[-1]["day"]
    assert {len(d["tags"]) for d in made} == {1, 2}


def test_generated_documents_compress_like_sampled_ones():
    made = list(Profile(ORDERED).documents(3000))
    packed = [
        sum(len(zlib.compress(str(rows_read[n : n + 50]).encode())) for n in range(0, 3000, 50))
        for rows_read in (ORDERED, made)
    ]
    assert packed[1] / packed[0] == pytest.approx(1, abs=0.25)


def test_no_document_has_the_combination_of_a_sampled_one():
    rows = [{"a": f"x{number}", "b": f"y{number}", "in": {"c": number, "d": number}} for number in range(2000)]
    made = list(Profile(rows, keep=["a", "b", "in.c", "in.d"]).documents(2000))
    for key in ("a", "b"):
        assert {d[key] for d in made} == {row[key] for row in rows}
    assert not any(d["a"][1:] == d["b"][1:] for d in made)
    assert not any(d["in"]["c"] == d["in"]["d"] for d in made)
    assert sum(d["a"][1:] == d["b"][1:] == str(d["in"]["c"]) == str(d["in"]["d"]) for d in made) < 20


def test_a_last_run_of_one_document_and_rare_objects_are_not_copied():
    """All fields of the only object of a run would follow it."""
    rows = [{"a": number, "b": number} for number in range(21)]
    made = Profile(rows, keep=["a", "b"]).documents(420)
    assert not any(d["a"] == d["b"] for d in made)
    rows = [{"n": number} | ({"in": {"c": number, "d": number}} if number % 25 == 0 else {}) for number in range(5000)]
    inner = [d["in"] for d in Profile(rows, keep=["in.c", "in.d"]).documents(5000) if "in" in d]
    assert 150 < len(inner) < 250
    assert not any(d["c"] == d["d"] for d in inner)


def test_more_fields_than_documents_of_a_run_do_not_follow_the_same_ones():
    rows = [{f"f{field}": number for field in range(50)} for number in range(400)]
    made = list(Profile(rows, keep=list(rows[0])).documents(400))
    for first, second in [(0, 20), (0, 25), (5, 45)]:
        assert sum(d[f"f{first}"] == d[f"f{second}"] for d in made) < 80


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (lambda lat, lon: {"lat": lat, "lon": lon}, lambda point: (point["lat"], point["lon"])),
        (lambda lat, lon: f"{lat},{lon}", lambda point: map(float, point.split(","))),
        (lambda lat, lon: [lon, lat], reversed),
    ],
    ids=["object", "text", "array"],
)
def test_points_stay_where_points_were_sampled(written, read):
    diagonal = [round(RNG.uniform(-80, 80), 5) for _ in range(2000)]
    points = [(place, round(place + RNG.uniform(0, 0.1), 5)) for place in diagonal]
    made = [tuple(read(d["at"])) for d in Profile([{"at": written(*point)} for point in points]).documents(2000)]
    assert max(abs(lat - lon) for lat, lon in made) < 20
    assert sorted(abs(lat - lon) for lat, lon in made)[1000] < 1
    assert not {lat for lat, _ in made} & {lat for lat, _ in points if len(str(abs(lat))) > 7}
    assert not set(made) & set(points)


def test_short_numbers_that_several_documents_share_stay():
    distances = [RNG.randrange(1000, 99999) for _ in range(300)]
    rows = [{"distance": RNG.choice(distances)} for _ in range(6000)]
    assert {d["distance"] for d in Profile(rows).documents(3000)} <= set(distances)


def test_the_vocabulary_grows_with_the_documents():
    def rows(count: int) -> list[dict]:
        ranks = ([min(int(RNG.paretovariate(0.6)), 10**7) for _ in range(6)] for _ in range(count))
        return [{"text": " ".join(f"word{rank}" for rank in places), "key": f"key{places[0]}"} for places in ranks]

    def vocabulary(rows_read: list[dict]) -> list[int]:
        return [len({word for d in rows_read for word in d["text"].split()}), distinct(rows_read, "key")]

    more = rows(9000)
    made = list(Profile(more[:1500]).documents(9000))
    assert vocabulary(made) == pytest.approx(vocabulary(more), rel=0.3)


def test_unique_keywords_stay_unique():
    rows = [{"name": f"lib{number}-package{number % 7}"} for number in range(1000)]
    assert distinct(list(Profile(rows).documents(4000)), "name") > 3900


def test_only_common_phrases_keep_their_order():
    texts = [["dear", "sir", *(f"{number}-{place}" for place in range(8))] for number in range(20)]
    pairs = shared_pairs(texts)
    assert pairs == {("dear", "sir")}
    made = rearranged(texts, pairs, random.Random(1))
    assert [text[:2] for text in made] == [["dear", "sir"]] * 20
    before, after = ({pair for text in these for pair in pairwise(text[2:])} for these in (texts, made))
    assert len(before & after) < 10
    assert sorted(word for text in made for word in text) == sorted(word for text in texts for word in text)


def test_texts_that_resemble_each_other_still_do():
    texts = [["a", "b", "c", "d"], ["a", "b", "c", "e"], ["x", "y", "z"]]
    made = rearranged(texts, shared_pairs(texts), random.Random(3))
    assert made[0][:3] == made[1][:3]
    assert [len(text) for text in made] == [4, 4, 3]


@pytest.mark.parametrize(("size", "most"), [(50, 100), (100, 100), (1000, 100), (1000, 7), (990, 980), (5000, 1000)])
def test_a_file_is_sampled_in_runs_of_neighbours(tmp_path, size, most):
    path = tmp_path / "a.ndjson"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(size)))
    rows_read = [d["n"] for d in documents.read(path, most, 1)]
    assert rows_read == sorted(set(rows_read))
    assert len(rows_read) == pytest.approx(min(size, most), abs=20 if size > most else 0)
    if 400 <= most < size:
        assert sum(second == first + 1 for first, second in pairwise(rows_read)) > 0.9 * len(rows_read)
