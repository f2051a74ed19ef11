"""A phase with visibility probes, on the driver that accepts and shows each event immediately."""

OF_THE_BID = {"id": "/bid_id", "time": "/bid_time"}
EVENTS = {"type": "/type", "kinds": {"bid": {"id": "/id", "time": "/time"}, "win": OF_THE_BID, "click": OF_THE_BID}}


def plan(driver="null", sample=0.1, **parts):
    """Return the plan of a phase that ingests 500 bids in a second."""
    stream = {"name": "s", "mix": [["take_in", 1]], "pacing": {"source": {"source": "ads", "workers": 2}}}
    made = {"generator": "adbids", "rate": 500, "documents": 500}
    looks = {"every": 0.02, "within": 5.0, "sample": sample}
    return {
        "seed": 1,
        "phase": "p",
        "target": {"driver": driver, "hosts": ["127.0.0.1:1"]},
        "operations": {"take_in": {"take_in": {"collection": "ads"}}},
        "visible": {"take_in": {name: value for name, value in looks.items() if value is not None}},
        "sources": {"ads": {"generate": made, "events": EVENTS, "flush": 0.05}},
        "streams": [stream | {"stop": "exhausted"}],
    } | parts
