"""Stores that a test starts with their own commands, as a user does, without Loadframe."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from commands import PATIENCE

REDIS = shutil.which("redis-server")
POSTGRES = shutil.which("postgres") and shutil.which("initdb")
#: Password of the superuser of PostgreSQL.
PASSWORD = "own-server-4711"


def free_port() -> int:
    """Return a free port of the kernel's range."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


class Server:
    """A server process that the test owns: a context manager."""

    #: Kind of store.
    kind = ""
    #: Keys of `store` for the access.
    access = ""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        #: Attempts to start: another process can take a free port before the server does.
        self._attempts = 1 if port else 5
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """Return the command line of the server; creates its files."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether the server answers."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server and wait until it answers."""
        end = time.monotonic() + PATIENCE
        process = self._launch()
        while process.poll() is not None or not self.answers():
            if process.poll() is not None:
                self._attempts -= 1
                assert self._attempts > 0, "the server ended"
                self.port = free_port()
                process = self._launch()
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)
        # From now on, others know its address.
        self._attempts = 1

    def _launch(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self._process

    def kill(self) -> None:
        """Kill the server, if it runs."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Redis(Server):
    """A Redis server without a password."""

    kind = "redis"

    def __init__(self, folder: Path, port: int | None = None, *options: str) -> None:
        super().__init__(folder, port)
        self._options = options

    def command(self) -> list[str]:
        """Return the command line; the server keeps nothing on disk."""
        assert REDIS
        words = [REDIS, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        # The port of the cluster's bus must be free as well.
        bus = ["--cluster-port", str(free_port())] if "--cluster-enabled" in self._options else []
        return [*words, *self._options, *bus]

    def answers(self) -> bool:
        """Whether the server answers PING."""
        return self.ask("PING") == "PONG"

    def ask(self, *words: str) -> str:
        """Return the output of redis-cli."""
        command = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def fill(self) -> None:
        """Write data of another user."""
        assert self.ask("SET", "foreign", "1") == "OK"

    def foreign(self) -> list[str]:
        """Return all keys of the server."""
        return sorted(self.ask("KEYS", "*").split())


class Postgres(Server):
    """A PostgreSQL server with a password; a command run by root starts it as the user `postgres`."""

    kind = "postgresql"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        super().__init__(folder, port)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        self._user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(folder, "postgres")
            shutil.chown(secret, "postgres")
        secret.chmod(0o600)
        self.access = f", user: postgres, password_file: {secret}"

    def command(self) -> list[str]:
        """Create the data folder if it does not exist, and return the command line."""
        data = self.folder / "data"
        if not data.exists():
            words = ["initdb", "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "-N"]
            subprocess.run(
                [*self._user, *words, f"--pwfile={self.folder / 'password'}"], check=True, capture_output=True
            )
        return [
            *self._user,
            "postgres",
            "-D",
            str(data),
            "-p",
            str(self.port),
            "-k",
            str(self.folder),
            "-c",
            "fsync=off",
        ]

    def kill(self) -> None:
        """Stop the server immediately, through its own command."""
        if self._process:
            words = ["pg_ctl", "-D", str(self.folder / "data"), "stop", "-m", "immediate", "-w"]
            program = Path(str(shutil.which("initdb"))).resolve().with_name("pg_ctl")
            subprocess.run([*self._user, str(program), *words[1:]], check=False, capture_output=True)
            self._process.wait(PATIENCE)
            self._process = None

    def answers(self) -> bool:
        """Whether the server answers a query."""
        return self.ask("SELECT 1") == "1"

    def ask(self, statement: str, database: str = "postgres") -> str:
        """Return the output of psql."""
        words = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database, "-Atc", statement]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=environment).stdout.strip()

    def fill(self) -> None:
        """Write data of another user."""
        self.ask("CREATE DATABASE loadframe")
        self.ask("CREATE TABLE foreign_data AS SELECT 1 AS one", "loadframe")

    def foreign(self) -> list[str]:
        """Return all tables of the database."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return self.ask(query, "loadframe").split()
