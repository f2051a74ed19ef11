"""Run folders never contain secrets, but keep texts that only look like secrets."""

from pathlib import PurePosixPath

import pytest
from recordings import manifest, summary

from loadframe.record import Run, RunWriter
from loadframe.record.redact import command, is_secret, plain, without


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "PASSWORD",
        "http_password",
        "keyStorePassword",
        "bootstrap.password",
        "dbpassword",
        "passphrase",
        "api_key",
        "apikey",
        "x-api-key",
        "API_KEY",
        "apiKey",
        "token",
        "auth-token",
        "accessToken",
        "secret",
        "client_secret",
        "AWS_SECRET_ACCESS_KEY",
        "secrets",
        "private_key",
        "Authorization",
        "credentials",
    ],
)
def test_keys_that_name_a_secret(key):
    assert is_secret(key)
    assert plain({"a": [{key: "x"}]}) == {"a": [{key: "***"}]}
    assert plain({key: 1234}) == {key: "***"}, "a number is a password too"


@pytest.mark.parametrize(
    "key",
    [
        "tokenizer",
        "token_filter",
        "token_chars",
        "num_tokens",
        "max_tokens",
        "initial_token",
        "shard_key",
        "keyword",
        "key",
    ],
)
def test_keys_of_settings_that_repeat_a_run_are_kept(key):
    assert not is_secret(key)
    assert plain({key: "standard"}) == {key: "standard"}


def test_a_collection_may_have_a_field_called_password():
    mapping = {"properties": {"password": {"type": "keyword"}}}
    assert plain(mapping) == mapping


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("https://user:hunter2@host:9200/x", "https://user:***@host:9200/x"),
        ("mongodb://u:p%40@a,b/db", "mongodb://u:***@a,b/db"),
        ("https://host:9200/a@b", "https://host:9200/a@b"),
        ("-Djavax.net.ssl.keyStorePassword=hunter2", "-Djavax.net.ssl.keyStorePassword=***"),
        ("GET /?api_key=abc&size=1", "GET /?api_key=***&size=1"),
        ("Authorization: Basic dTpw", "Authorization: ***"),
        ("a plain sentence: with a colon", "a plain sentence: with a colon"),
        ("num_tokens=16", "num_tokens=16"),
        ('{"user": "ann", "password" : "hun\\"ter2", "n": 5}', '{"user": "ann", "password" : "***", "n": 5}'),
        ('{"secrets": ["a", "b"], "token": 55}', '{"secrets": "***", "token": "***"}'),
        ('cut off: {"password": "hunt', 'cut off: {"password": "***"'),
        ('{"body": "{\\"password\\":\\"x y\\",\\"b\\":1}"}', '{"body": "{\\"password\\":\\"***\\",\\"b\\":1}"}'),
        ('{"match": {"password": {"query": "x"}}}', '{"match": {"password": {"query": "x"}}}'),
        ("POST /\nX-Api-Key: abc\nAccept: x", "POST /\nX-Api-Key: ***\nAccept: x"),
        (
            "CREATE ROLE ann WITH PASSWORD = 'it''s' AND LOGIN = true",
            "CREATE ROLE ann WITH PASSWORD = '***' AND LOGIN = true",
        ),
    ],
)
def test_secrets_inside_texts_are_taken_out(text, written):
    assert plain(text) == written


def test_the_word_after_an_option_is_taken_out():
    words = ("loadframe", "bench", "--password", "hunter2", "--nodes", "2")
    assert plain(words) == ["loadframe", "bench", "--password", "***", "--nodes", "2"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("AUTH ann hunter2", "AUTH *** ***"),
        ("HELLO 3 AUTH ann hunter2", "HELLO 3 AUTH *** ***"),
        ('HSET c:1 password "hunter 2" name ann', "HSET c:1 password *** name ann"),
        ("GET a", "GET a"),
    ],
)
def test_words_of_a_command_that_are_secrets_are_taken_out(text, written):
    assert command(text) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x-amz-security-token:a/b+c<d-long", "x-amz-security-token:***"),
        ("'a/b+c<d-long' a/b+c<d-long", "'***' ***"),
        ("cut within the secret: a/b+c<d-l", "cut within the secret: ***"),
        (r"a\/b+c<d-long", "***"),
        ("a%2Fb%2Bc%3Cd-long", "***"),
        ("a/b+c&lt;d-long", "***"),
        ("a/b+c", "a/b+c"),
        ("pad paddle pad.", "*** paddle ***."),
    ],
)
def test_known_secrets_are_masked_wherever_they_occur(text, written):
    assert without(text, ["a/b+c<d-long", "pad", ""]) == written


def test_paths_and_tuples_are_written_as_json_has_them():
    assert plain({"files": (PurePosixPath("/a/b"), None, True, 1.5)}) == {"files": ["/a/b", None, True, 1.5]}


def test_no_file_of_a_run_holds_a_secret(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        writer.event("node failed", cause="login https://u:hunter2@host failed", password="hunter2")
        store = {"kind": "opensearch", "settings": {"auth": {"api_key": "hunter2"}}, "hosts": ["http://u:hunter2@h:1"]}
        command = ["loadframe", "bench", "--password=hunter2"]
        writer.finish(manifest(store=store, command=command).as_dict(), summary(failure="password=hunter2"))
    run = Run(tmp_path / "r1")
    assert run.raw_manifest["store"]["settings"]["auth"] == {"api_key": "***"}
    assert not [path.name for path in run.path.iterdir() if b"hunter2" in path.read_bytes()]
