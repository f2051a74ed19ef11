"""Sources of secrets, and refusal of files that others can read."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster.reach import credentials

NOTHING = {"user": None, "password_file": None, "api_key_file": None, "token_file": None}


def asked(environment=(), warn=pytest.fail, **options):
    return credentials(**{**NOTHING, **options}, environment=dict(environment), warn=warn)


@pytest.fixture
def secret(tmp_path):
    """Write a secret into a file."""

    def write(text: str = "hush\n", mode: int = 0o600):
        path = tmp_path / "secret"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_nobody_asks_unless_somebody_is_named():
    assert asked() is None
    assert asked({"LOADFRAME_PASSWORD": "hush"}) is None


def test_a_file_holds_the_secret_and_perhaps_the_end_of_its_line(secret):
    for text in ("hush", "hush\n", "hush\r\n"):
        assert asked(user="ann", password_file=secret(text)).secret == "hush"
        assert asked(api_key_file=secret(text)).plan == {"api_key": "hush"}
        assert asked(token_file=secret(text)).plan == {"bearer": "hush"}


def test_a_password_may_have_any_characters(secret):
    assert asked(user="ann", password_file=secret(" päss wörd:\n")).secret == " päss wörd:"


def test_the_environment_is_asked_after_the_options(secret):
    assert asked({"LOADFRAME_PASSWORD": "hush"}, user="ann").plan == {"basic": {"user": "ann", "password": "hush"}}
    assert asked({"LOADFRAME_API_KEY": "hush"}).scheme == "api_key"
    assert asked({"LOADFRAME_TOKEN": "hush"}).scheme == "bearer"
    other = {"LOADFRAME_API_KEY": "other", "LOADFRAME_PASSWORD": "other"}
    assert asked(other, user="ann", password_file=secret()).secret == "hush"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_warned_of_and_used(secret, mode):
    warned = []
    path = secret(mode=mode)
    assert asked(api_key_file=path, warn=warned.append).secret == "hush"
    assert len(warned) == 1
    assert f"other users can read the secret in {path} (mode {mode:o})" in warned[0]
    assert "hush" not in warned[0]


@pytest.mark.parametrize(
    ("options", "environment", "cause"),
    [
        ({"user": "ann:hush"}, {}, "a user name cannot contain a colon"),
        ({"user": "ann", "api_key_file": Path("file")}, {}, "--user and --api-key-file exclude each other"),
        ({"password_file": Path("file")}, {}, "give --user, too"),
        ({"api_key_file": Path("gone")}, {}, "gone: cannot read the secret: No such file"),
        ({}, {"LOADFRAME_API_KEY": "hush", "LOADFRAME_TOKEN": "hush"}, "both LOADFRAME_API_KEY and LOADFRAME_TOKEN"),
        ({}, {"LOADFRAME_TOKEN": "hush\nhush"}, "LOADFRAME_TOKEN: the secret contains spaces, line breaks or"),
    ],
)
def test_it_must_be_clear_who_asks(options, environment, cause):
    with pytest.raises(BadInput, match=cause) as caught:
        asked(environment, **options)
    assert "hush" not in str(caught.value)


def test_empty_secret_files_are_refused(secret):
    with pytest.raises(BadInput, match="the file is empty"):
        asked(token_file=secret("\n"))


def test_without_a_terminal_the_password_must_come_from_elsewhere():
    program = (
        "from loadframe.cluster.reach import credentials\n"
        "credentials(user='ann', password_file=None, api_key_file=None, token_file=None, warn=print, environment={})"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert "no terminal to read it from" in done.stderr
    assert "LOADFRAME_PASSWORD" in done.stderr


def test_at_a_terminal_the_password_is_asked_for_and_not_echoed():
    program = (
        "from loadframe.cluster.reach import credentials\n"
        "auth = credentials(user='ann', password_file=None, api_key_file=None, token_file=None, warn=print,"
        " environment={})\n"
        "print('length', len(auth.secret))"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", program])
    said = b""
    try:
        while b"Password for ann: " not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, b"hush\n")
        while b"length 4" not in said:
            said += os.read(terminal, 1000)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert b"hush" not in said
