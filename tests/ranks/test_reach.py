"""Whether a rank gets to nodes, and how long its way is."""

import socket

from loadframe.ranks.liveness import distances, unreachable


def test_nodes_that_take_no_connection_are_named_with_the_reason():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        closed.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
        missed = unreachable([there, gone, "no-such-name.invalid:1"])
        assert missed.keys() == {gone, "no-such-name.invalid:1"}
        assert missed[gone] == "ECONNREFUSED"
        near, none = distances([there, gone])
        assert near is not None and 0 < near < 1 and none is None
