"""A fake Couchbase installation that loadframe can read and run: its nodes relay to a CouchbaseService."""

import sys
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
PIDFILE="{prefix}/var/lib/couchbase/couchbase-server.pid"
STATIC_CONFIG_PATH="{prefix}/etc/couchbase/static_config"
SSL_DIST_OPTFILE="{prefix}/etc/couchbase/ssl_dist_opts"
if [ "$1" = --version ]; then echo "Couchbase Server {version}-3721 (EE)"; exit; fi
cd "{prefix}/var/lib/couchbase" || exit 3
exec {python} -S "{home}/node.py" "$STATIC_CONFIG_PATH" {relay} -name babysitter_of_ns_1@cb.local
"""
_NODE = """\
import http.client, http.server, pathlib, re, sys
_KEPT = ("authorization", "content-length")
port = int(re.search(r"{rest_port, (\\d+)}", pathlib.Path(sys.argv[1]).read_text())[1])
print("I am", sys.argv[-1], flush=True)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        there = http.client.HTTPConnection(sys.argv[2])
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kept = {key: value for key, value in self.headers.items() if key.lower() in _KEPT}
        there.request(self.command, f"/127.0.0.1:{port}{self.path}", content, kept)
        answer = there.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
_STATIC = """\
{{path_config_bindir, "{prefix}/bin"}}.
{{path_config_datadir, "{prefix}/var/lib/couchbase"}}.
{{nodefile, "{prefix}/var/lib/couchbase/couchbase-server.node"}}.
"""


def install(home: Path, relay: str = "", version: str = "7.6.2", prefix: Path | None = None) -> Path:
    """Write an installation into `home`; with another `prefix`, as if it had been moved there."""
    names = {"prefix": prefix or home, "home": home, "version": version, "relay": relay, "python": sys.executable}
    files = {
        "bin/couchbase-server": _SCRIPT.format(**names),
        "node.py": _NODE,
        "etc/couchbase/static_config": _STATIC.format(**names),
        "etc/couchbase/ssl_dist_opts": f'[{{cacertfile, "{prefix or home}/var/lib/couchbase/config/ca.pem"}}].\n',
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "bin" / "couchbase-server").chmod(0o755)
    return home
