"""Statistics of event sources become rates."""

from loadframe.observe import Sample, SourcesSampler


def told(lines, waiting, cpu=()):
    return {
        "ads": {
            "lines": lines,
            "accepted": lines,
            "indexed": lines - waiting,
            "dead_letters": 0,
            "waiting": waiting,
            "spilled": 0,
            "reader_cpu": cpu,
        }
    }


def sampled(sampler, now):
    return {sample.metric: sample.value for sample in sampler.sample(now)}


def test_totals_become_rates_and_queue_lengths_stay_levels():
    sampler = SourcesSampler()
    sampler.tell(told(100, 40))
    assert list(sampler.sample(1.0)) == [Sample("source:ads", "waiting", 40), Sample("source:ads", "spilled", 0)]
    sampler.tell(told(300, 20))
    assert sampled(sampler, 3.0) == {
        "lines": 100.0,
        "accepted": 100.0,
        "indexed": 110.0,
        "dead_letters": 0.0,
        "waiting": 20,
        "spilled": 0,
    }


def test_visible_events_are_a_rate_if_probed():
    sampler = SourcesSampler()
    for now, visible in ((1.0, 0), (2.0, 80)):
        sampler.tell({"ads": {**told(100, 0)["ads"], "visible": visible}})
        samples = sampled(sampler, now)
    assert samples["visible"] == 80.0


def test_a_source_that_is_read_again_restarts_its_rates():
    sampler = SourcesSampler()
    sampler.tell(told(100, 0))
    list(sampler.sample(1.0))
    sampler.tell({})
    assert list(sampler.sample(2.0)) == []
    sampler.tell(told(500, 0))
    assert sampled(sampler, 3.0) == {"waiting": 0, "spilled": 0}


def test_the_busiest_reader_thread_of_a_source_is_reported():
    sampler = SourcesSampler()
    sampler.tell(told(0, 0, [0.5, 3.0]))
    assert "reader_cpu" not in sampled(sampler, 1.0)
    sampler.tell(told(0, 0, [2.0, 3.5]))
    assert sampled(sampler, 3.0)["reader_cpu"] == 0.75
