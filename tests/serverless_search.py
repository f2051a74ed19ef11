"""A search service that hides its cluster, on loopback: it answers cluster and node calls with an error."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback_server import Handler, LoopbackServer

_ROOT = {
    "name": "serverless",
    "cluster_name": "c",
    "version": {"number": "8.11.0", "build_flavor": "serverless"},
    "tagline": "You Know, for Search",
}
_SHARDS = {"total": 1, "successful": 1, "failed": 0}


class ServerlessSearch(LoopbackServer):
    """Context manager that counts bulk documents and refuses everything outside `_bulk`, `_count` and `_search`.

    `status`: HTTP status of the refusals. `refusal` returns status and content for requests that may not be sent, else
    None. `amazon`: like OpenSearch Serverless, it also lacks `GET /` and `_refresh`.
    """

    def __init__(
        self,
        status: int,
        refusal: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, Any] | None] = lambda *_: None,
        *,
        amazon: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        documents: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()  #: by call
        self.refused: list[Any] = []
        counted, refused = self.requests, self.refused

        class Answers(Handler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                collection, _, call = self.path.partition("?")[0].strip("/").partition("/")
                plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                counted[call or collection] += 1
                if denied := refusal(self, body):
                    refused.append(denied)
                    self._answer(*denied)
                elif amazon and (not collection or call == "_refresh"):
                    self._answer(404, None)
                elif not collection:
                    self._answer(200, _ROOT)
                elif call == "_bulk":
                    lines = plain.count(b"\n") // 2
                    documents[collection] += lines
                    item = {"index": {"_id": "x", "status": 201, "_shards": _SHARDS}}
                    self._answer(200, {"took": 1, "errors": False, "items": [item] * lines})
                elif call == "_count":
                    self._answer(200, {"count": documents[collection], "_shards": _SHARDS})
                elif call == "_search":
                    hits = {"total": {"value": 1, "relation": "eq"}, "hits": []}
                    self._answer(200, {"took": 1, "timed_out": False, "_shards": _SHARDS, "hits": hits})
                elif call == "_refresh":
                    self._answer(200, {"_shards": _SHARDS})
                elif self.command == "PUT" and not call:
                    self._answer(200, {"acknowledged": True, "shards_acknowledged": True, "index": collection})
                elif self.command in ("GET", "HEAD") and not call and not collection.startswith("_"):
                    self._answer(404, {"error": {"type": "index_not_found_exception", "reason": "no such index"}})
                else:
                    reason = f"{self.path} is not available when running in serverless mode"
                    self._answer(status, {"error": {"type": "api_not_available_exception", "reason": reason}})

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve

            def _answer(self, code: int, body: Any) -> None:
                text = b"" if body is None else json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

        super().__init__(Answers, host)
