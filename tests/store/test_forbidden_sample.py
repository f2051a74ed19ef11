"""Samples of a search engine that does not allow the user to read the index."""

import json

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import find
from loopback_server import Handler, LoopbackServer


class _Forbidding(Handler):
    """An OpenSearch that answers 403 to everything but `GET /`."""

    def _answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        reason = "no permissions for [indices:data/read/search] and User [name=ann]"
        status, answer = 403, {"error": {"type": "security_exception", "reason": reason}, "status": 403}
        if self.path == "/":
            status, answer = 200, {"version": {"distribution": "opensearch", "number": "3.8.0"}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = _answer


@pytest.mark.parametrize("kind", ["opensearch", "elasticsearch"])
def test_a_sample_that_the_cluster_forbids_is_bad_input_with_a_remedy(kind):
    with (
        LoopbackServer(_Forbidding) as server,
        pytest.raises(BadInput, match=r"the cluster denies access: 403, no permissions for") as refused,
    ):
        find(kind).sample([server.address], "people", 10)
    assert refused.value.where == server.address
    assert refused.value.remedy
