"""Commands to a Redis server and its replies, as bytes on a socket."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadframe.base.errors import BadInput, StoreFailed
from loadframe.store.access import OPEN, Access, Auth
from loadframe.store.base import Unreachable
from loadframe.store.redis.client import Client, sampled_values

Serve = Callable[..., Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a client of a server that sends one prepared reply per read. The reply None closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def answer(replies: list[bytes | None]) -> None:
        left = iter(replies)
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while read := connection.recv(65536):
                    received.append(read)
                    reply = next(left, None)
                    if reply is None:
                        break
                    connection.sendall(reply)

    def start(*replies: bytes | None, access: Access = OPEN) -> Client:
        threading.Thread(target=answer, args=[list(replies)], daemon=True).start()
        client = Client(f"127.0.0.1:{listener.getsockname()[1]}", access)
        client.received = received
        return client

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_replies_of_every_kind_are_read(serve):
    client = serve(b"*6\r\n+OK\r\n:-7\r\n$5\r\na\r\nbc\r\n$-1\r\n*0\r\n*2\r\n$0\r\n\r\n*-1\r\n")
    assert client.ask("MANY") == ["OK", -7, "a\r\nbc", None, [], ["", None]]


def test_a_name_of_two_words_is_sent_as_two_and_an_argument_with_a_space_as_one(serve):
    client = serve(b"+OK\r\n")
    client.ask("CLUSTER MEET", "a b", 7)
    assert client.received == [b"*4\r\n$7\r\nCLUSTER\r\n$4\r\nMEET\r\n$3\r\na b\r\n$1\r\n7\r\n"]


def test_commands_that_are_sent_at_once_get_their_replies_in_order(serve):
    client = serve(b":1\r\n:2\r\n")
    assert client.ask_all([("A",), ("B",)]) == [1, 2]


def test_a_key_that_is_not_text_gets_back_as_it_came(serve):
    client = serve(b"*2\r\n$1\r\n0\r\n*1\r\n$2\r\n\xff\xfe\r\n", b":1\r\n")
    ((key,),) = client.keys("things")
    client.ask("UNLINK", key)
    assert client.received[-1].endswith(b"$2\r\n\xff\xfe\r\n")


def test_a_sampled_key_that_expires_meanwhile_is_left_out(serve):
    client = serve(
        b"*2\r\n$1\r\n0\r\n*2\r\n$3\r\na:1\r\n$3\r\na:2\r\n",
        b"+string\r\n+string\r\n",
        b'$-1\r\n$7\r\n{"b":1}\r\n',
    )
    assert sampled_values([client], "a", 2).documents == [{"b": 1}]


def test_an_error_among_replies_is_the_servers_failure_and_the_connection_goes_on(serve):
    client = serve(b":1\r\n-ERR no such thing\r\n:3\r\n", b"+PONG\r\n")
    with pytest.raises(StoreFailed, match="the server reports an error: no such thing"):
        client.ask_all([("A",), ("B",), ("C",)])
    assert client.ask("PING") == "PONG"


def test_a_connection_that_broke_is_made_again_once(serve):
    client = serve(b"+PONG\r\n", None, b"+PONG\r\n", None, None)
    assert [client.ask("PING"), client.ask("PING")] == ["PONG", "PONG"]
    with pytest.raises(Unreachable, match="closed the connection"):
        client.ask("PING")


@pytest.mark.parametrize("stopped", [True, False])
def test_a_server_that_breaks_a_connection_does_not_run_if_it_refuses_the_next(stopped):
    reset = struct.pack("ii", 1, 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer():
            for _ in range(1 if stopped else 2):
                peer, _ = listener.accept()
                with peer:
                    peer.recv(64)
                    if stopped:
                        listener.close()
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(answer)
            if stopped:
                assert not Client(address, OPEN).running()
            else:
                with pytest.raises(Unreachable):
                    Client(address, OPEN).running()


@pytest.mark.parametrize("code", ["NOAUTH", "NOPERM"])
def test_a_denied_command_is_bad_input(serve, code):
    with pytest.raises(BadInput, match="denies access: who are you") as caught:
        serve(b"-%b who are you\r\n" % code.encode()).info()
    assert all(option in str(caught.value.remedy) for option in ("--user", "--password-file", "LOADFRAME_PASSWORD"))


def test_a_user_without_a_privilege_is_named_in_the_remedy(serve):
    client = serve(
        b"+OK\r\n-NOPERM no permissions to run scan\r\n", access=Access(auth=Auth("basic", "hush", user="ann"))
    )
    with pytest.raises(BadInput, match="denies access: no permissions to run scan") as caught:
        client.ask("SCAN", "0")
    assert "allow ann these commands and keys" in str(caught.value.remedy)


@pytest.mark.parametrize("reply", [b"-WRONGPASS invalid pair\r\n", b"-ERR invalid pair\r\n"])
def test_a_wrong_password_is_bad_input_and_is_not_sent_twice(serve, reply):
    client = serve(reply, b"+OK\r\n", access=Access(auth=Auth("basic", "hush", user="ann")))
    with pytest.raises(BadInput, match="denies access: invalid pair") as caught:
        client.info()
    assert "refused the given credentials: check --user ann" in str(caught.value.remedy)
    assert client.received == [b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$4\r\nhush\r\n"]


def test_a_server_that_reads_its_data_does_not_answer_yet(serve):
    with pytest.raises(Unreachable, match="is loading its data"):
        serve(b"-LOADING Redis is loading the dataset in memory\r\n").ask("PING")


def test_servers_without_resp_are_reported(serve):
    with pytest.raises(Unreachable, match=r"is not RESP: b'HTTP/1\.1 400"):
        serve(b"HTTP/1.1 400 Bad Request\r\n\r\n").ask("PING")


def test_info_is_read_by_its_lines(serve):
    text = b"# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\n"
    assert serve(b"$%d\r\n%b\r\n" % (len(text), text)).info() == {"redis_version": "7.0.15", "executable": "/a:b"}
