"""A connection to one Redis server, for what is asked beside the load; errors are loadframe's own."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from loadframe.errors import BadInput, StoreFailed
from loadframe.store.access import Access, split_address
from loadframe.store.base import Unreachable

#: Seconds.
_TIMEOUT = 30.0
_LOOK_TIMEOUT = 5.0
_CONNECT_TIMEOUT = 3.0


class Client:
    """Connects when it first asks. BadInput when it is not let in, Unreachable when nobody answers."""

    def __init__(self, address: str, access: Access) -> None:
        """Take note of where, and as whom."""
        self.address = address
        self._access = access
        self._auth = access.auth
        host, port = split_address(address)
        tls: dict[str, Any] = {}
        if access.tls:
            files = {"ssl_ca_certs": access.tls.ca, "ssl_certfile": access.tls.certificate}
            files["ssl_keyfile"] = access.tls.key
            tls = {"ssl": True, **{name: str(file) for name, file in files.items() if file}}
            tls |= {"ssl_cert_reqs": "required" if access.tls.verify else "none"}
            tls |= {"ssl_check_hostname": access.tls.verify}
        common = {
            "host": host,
            "port": port,
            "username": self._auth.user if self._auth else None,
            "password": self._auth.secret if self._auth else None,
            "socket_connect_timeout": _CONNECT_TIMEOUT,
            # Once more, for a server that was started again; one that is cut off is not waited for twice.
            "retry": Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,)),
            "decode_responses": True,
            **tls,
        }
        self._redis: Any = Redis(socket_timeout=_TIMEOUT, **common)
        #: For what is answered at once.
        self._looks: Any = Redis(socket_timeout=_LOOK_TIMEOUT, **common)
        # As the server says it: the library's own reading leaves slots that are on their way out.
        self._looks.set_response_callback("CLUSTER NODES", str)
        # Asked for of each node every second, and its reading of a hundred values nobody wants costs most of a look.
        self._looks.set_response_callback("INFO", str)

    @property
    def credentials(self) -> list[str]:
        """The words that let another node in here, for MIGRATE."""
        return ["AUTH2", self._auth.user or "default", self._auth.secret] if self._auth else []

    def ask(self, *words: str | int) -> Any:
        """Return the answer to one command."""
        with self._told():
            return self._redis.execute_command(*words)

    def ask_all(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        """Return the answers to commands that are sent at once."""
        with self._told(), self._redis.pipeline(transaction=False) as pipeline:
            for words in commands:
                pipeline.execute_command(*words)
            return list(pipeline.execute())

    def info(self) -> dict[str, str]:
        """Return what INFO says, without its figures for each command, which nobody asks for and which are many."""
        with self._told():
            text = str(self._looks.info())
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def look(self, command: str) -> Any:
        """Return the answer to a command that a server has at hand; one that is cut off is given up soon."""
        with self._told():
            return self._looks.execute_command(command)

    def keys(self, collection: str) -> Iterator[list[str]]:
        """Yield the keys of a collection's documents that this node holds, in batches; one may come twice."""
        pattern, cursor = "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in collection) + ":*", 0
        while True:
            cursor, keys = self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            yield keys
            if int(cursor) == 0:
                return

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
            raise BadInput(
                f"the server does not let us do that: {error}",
                where=self.address,
                remedy="give --user, with an account that may do it",
            ) from error
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            raise Unreachable(
                f"the server does not answer ({error})",
                where=self.address,
                remedy=f"check that it runs, and that the address is where it speaks RESP{self._access.tls_remedy}",
            ) from error
        except exceptions.RedisError as error:
            raise StoreFailed(f"the server says: {error}", where=self.address) from error
