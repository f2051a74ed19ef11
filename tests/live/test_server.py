"""The server of the live page: answers, permitted clients, and refusals."""

import itertools
import socket

import httpx
import pytest
from feeds import command, feed, served, told

from commands import until, within
from loadframe.base.errors import BadInput
from loadframe.live.server import parse_address

pytestmark = pytest.mark.usefixtures("state")
RUN = {"kind": "run", "run": "r1"}


def test_a_browser_receives_earlier_and_later_records():
    with feed(command(), RUN) as written, served() as url:
        records = told(url)
        assert [record["kind"] for record in itertools.islice(records, 2)] == ["command", "run"]
        written.append([{"kind": "step", "text": "a node starts"}])
        assert next(records)["text"] == "a node starts"


def test_the_page_keeps_the_end_until_the_next_command():
    with feed(command("first")) as written, served() as url:
        records = told(url)
        assert next(records)["name"] == "first"
        written.append([{"kind": "over", "how": "done"}])
        written.__exit__()
        assert next(records)["how"] == "done"
        assert [record["kind"] for record in itertools.islice(told(url), 2)] == ["command", "over"], "reloaded"
        with feed(command("second")):
            assert next(records)["name"] == "second"


def test_a_command_that_ends_without_a_word_was_killed():
    with served() as url:
        with feed(command()):
            records = told(url)
            assert next(records)["kind"] == "command"
        assert next(records) == {"kind": "over", "how": "killed", "why": None, "report": None}


def test_the_page_brings_everything_along_and_may_fetch_nothing_else():
    with feed(command()), served() as url:
        page = httpx.get(url)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy
        assert "src=" not in page.text
        assert "href=" not in page.text


@pytest.mark.parametrize("path", ["", "events", "/events", "../events", "other", "other/", "other/events"])
def test_without_its_token_the_page_tells_nothing(path):
    with feed(command()), served() as url, served() as other:
        base, token = url.rstrip("/").rsplit("/", 1)
        for wrong in ("", token[:-1], f"{token}x", token.swapcase(), "%C3%A9", other.rstrip("/").rsplit("/", 1)[1]):
            answer = httpx.get(f"{base}/{wrong}{path}")
            assert answer.status_code == 403, wrong
            assert "token is missing or wrong" in answer.text
        assert len(token) > 20
        assert httpx.get(url).status_code == 200


@pytest.mark.parametrize("path", ["pyproject.toml", "%2e%2e/etc/passwd", "events/", "favicon.ico"])
def test_there_is_nothing_else_to_get(path):
    with served() as url:
        assert httpx.get(f"{url}{path}").status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("localhost:8350", 200),
     ("127.0.0.1", 200), ("[::1]:8350", 200), ("[::1]", 200), (socket.gethostname(), 200), ("[127.0.0.1x", 421),
     ("[::1", 421), ("[::1].evil.example", 421), ("[::1]:80.evil.example", 421), ("::1", 421), ("[]", 421)],
)  # fmt: skip
def test_only_its_own_names_are_answered(host, status):
    with served() as url:
        assert httpx.get(url, headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("text", "address"),
    [("8350", ("127.0.0.1", 8350)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:8350", ("::1", 8350)),
     ("0", ("127.0.0.1", 0))],
)  # fmt: skip
def test_an_address_is_on_loopback_unless_one_is_given(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1", ":80", "1:65536", "a:b", "-1"])
def test_invalid_addresses_are_bad_input(text):
    with pytest.raises(BadInput):
        parse_address(text)


def test_no_run_is_bad_input_with_a_remedy():
    status, _, said = within("watch", "--web")
    assert status == 2
    assert "no run is active on this machine" in said
    assert "loadframe bench" in said


def test_unknown_names_are_bad_input_with_the_existing_ones():
    with feed(command("taxis")):
        status, _, said = within("watch", "other", "--web")
    assert status == 2
    assert "no active run is named other" in said
    assert "taxis" in said


@pytest.mark.parametrize("words", [("watch", "--web"), ("bench", "nyc_taxis", "--store", "sim", "--web")])
def test_a_port_that_is_taken_is_bad_input(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with feed(command()), socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, said = within(*words, "--web-address", str(taken.getsockname()[1]))
    assert status == 2
    assert "cannot serve the live page" in said
    assert "--web-address" in said


@pytest.mark.parametrize(
    "words",
    [("watch",), ("watch", "--web", "--json"), ("watch", "--web-address", "1"), ("watch", "--web", "--count", "1")],
)
def test_options_that_make_no_sense_are_refused(words):
    assert within(*words)[0] == 2


def test_a_browser_that_goes_away_leaves_the_others_alone():
    with feed(command()) as written, served() as url:
        gone, stays = told(url), told(url)
        next(gone), next(stays)
        gone.close()
        for text in ("one", "two"):
            written.append([{"kind": "step", "text": text}])
            assert until(lambda: next(stays))["text"] == text
