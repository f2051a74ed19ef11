"""rsyslog, which forwards lines from a TCP port to a search cluster with its module omelasticsearch."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError

#: Queue and batches match the ingester: 4 workers, 4,096 events per request.
_COMMON = """\
global(workDirectory="{folder}")
module(load="imptcp")
module(load="omelasticsearch")
module(load="mmjsonparse")
template(name="document" type="string" string="%rawmsg%")
template(name="index" type="string" string="{index}-%$!time:1:10%")
template(name="id" type="string" string="%$!type%-%$!id%%$!bid_id%")
input(type="imptcp" address="127.0.0.1" port="{port}" supportOctetCountedFraming="off" ruleset="log")
ruleset(name="log" queue.type="fixedArray" queue.size="200000" queue.dequeueBatchSize="4096" queue.workerThreads="4"
        queue.workerThreadMinimumMessages="4096") {{
  {actions}
}}
"""
_SEND = (
    'action(type="omelasticsearch" server="{host}" serverport="{store_port}" bulkmode="on" maxbytes="64m"'
    ' template="document" searchType="" errorFile="{folder}/errors" action.resumeRetryCount="-1" {where})'
)
#: Parsing and destination of a line, by variant.
WAYS = {
    # One document per event in the index of its day, because rsyslog cannot update documents.
    "by id": (
        'action(type="mmjsonparse" cookie="" useRawMsg="on")\n  ',
        'searchIndex="index" dynSearchIndex="on" bulkid="id" dynBulkId="on"',
    ),
    # Without parsing: the store generates the id, and all events go to one index.
    "as it comes": ("", 'searchIndex="{index}-all"'),
}


@contextmanager
def listening(way: str, port: int, address: str, index: str) -> Iterator[subprocess.Popen[str]]:
    """Run rsyslog from `port` to the node at `address`; yield its process. Stops it at the end.

    BadInput if it is not installed, LoadframeError if the store refused documents.
    """
    program = shutil.which("rsyslogd", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise BadInput("rsyslog is not installed", remedy="apt-get install rsyslog rsyslog-elasticsearch")
    host, _, store_port = address.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="loadframe-rsyslog-") as folder:
        configuration, errors = Path(folder) / "rsyslog.conf", Path(folder) / "errors"
        before, where = WAYS[way]
        send = _SEND.format(host=host, store_port=store_port, folder=folder, where=where.format(index=index))
        configuration.write_text(_COMMON.format(folder=folder, port=port, index=index, actions=before + send))
        command = [program, "-n", "-f", str(configuration), "-i", str(Path(folder) / "pid")]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
            try:
                time.sleep(1)
                if server.poll() is not None:
                    raise LoadframeError(f"rsyslog did not start: {server.communicate()[1].strip()[-2000:]}")
                yield server
            finally:
                server.kill()
        if errors.exists() and errors.stat().st_size:
            raise LoadframeError(f"the store refused documents of rsyslog: {errors.read_text()[:500]}")
