"""Answers with its name and its environment; `GET /ready` reports that it is up."""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        told = [os.environ[name] for name in ("INSTANCE", "SETTING_GREETING", "SECRET")]
        body = "" if self.path == "/ready" else " ".join(told)
        self.send_response(200)
        self.send_header("Server-Timing", "store;dur=2.500, app;dur=0.25")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_args):
        pass


ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
