"""Secrets from files, the environment or the terminal.

Command-line options never contain secrets, because all users of the machine can read command lines.
"""

import getpass
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.untrusted import read_input
from loadframe.store.access import Auth

PASSWORD = "LOADFRAME_PASSWORD"
API_KEY = "LOADFRAME_API_KEY"
TOKEN = "LOADFRAME_TOKEN"

#: Size limit of a file with a secret, bytes.
_MAX_SIZE = 1 << 20

Warn = Callable[[str], None]


def credentials(
    *,
    user: str | None,
    password_file: Path | None,
    api_key_file: Path | None,
    token_file: Path | None,
    warn: Warn,
    environment: Mapping[str, str] = os.environ,
) -> Auth | None:
    """Return the credentials from the options, or else from the environment, or None.

    A user's password is read from the terminal if neither has it. BadInput for contradictory or incomplete
    credentials. `warn` receives a warning for files that other users can read.
    """
    schemes = [
        option
        for option, value in (("--user", user), ("--api-key-file", api_key_file), ("--token-file", token_file))
        if value is not None
    ]
    if len(schemes) > 1:
        raise BadInput(f"{' and '.join(schemes)} exclude each other", remedy="give one of them")
    if password_file and user is None:
        raise BadInput("--password-file requires --user", remedy="give --user, too")
    if user is not None:
        return _basic(user, password_file, warn, environment)
    if api_key_file:
        return Auth("api_key", _visible(read(api_key_file, warn), str(api_key_file)))
    if token_file:
        return Auth("bearer", _visible(read(token_file, warn), str(token_file)))
    key, token = environment.get(API_KEY), environment.get(TOKEN)
    if key and token:
        raise BadInput(f"the environment has both {API_KEY} and {TOKEN}", remedy="unset one of them")
    if key:
        return Auth("api_key", _visible(key, API_KEY))
    return Auth("bearer", _visible(token, TOKEN)) if token else None


def read(file: Path, warn: Warn) -> str:
    """Return the secret in a file, without the line's end; BadInput if the file is unreadable or empty."""
    try:
        text = read_input(file, _MAX_SIZE).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise BadInput("cannot read the secret: the file is not text", where=str(file)) from None
    except BadInput as error:
        why = error.what.removeprefix("cannot read the file: ")
        raise BadInput(f"cannot read the secret: {why}", where=str(file), remedy=error.remedy) from None
    warn_if_open(file, warn)
    if not text:
        raise BadInput("the file is empty", where=str(file), remedy="store the secret in it, and nothing else")
    return text


def warn_if_open(file: Path, warn: Warn) -> None:
    """Warn if other users of this machine can read a file that holds a secret."""
    mode = file.stat().st_mode
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"other users can read the secret in {file} (mode {stat.S_IMODE(mode):o}): run chmod 600 {file}")


def _basic(user: str, password_file: Path | None, warn: Warn, environment: Mapping[str, str]) -> Auth:
    if ":" in user:
        raise BadInput(
            "a user name cannot contain a colon",
            where="--user",
            remedy=f"give a password in --password-file or {PASSWORD}, since all users can read command lines",
        )
    if password_file:
        return Auth("basic", read(password_file, warn), user)
    password = environment.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise BadInput(
                f"no password for {user}, and no terminal to read it from",
                remedy=f"give --password-file, or set {PASSWORD}",
            )
        password = getpass.getpass(f"Password for {user}: ")
    return Auth("basic", password, user)


def _visible(secret: str, where: str) -> str:
    """Return the secret; BadInput if an HTTP header cannot carry it."""
    if not all("!" <= character <= "~" for character in secret):
        raise BadInput(
            "the secret contains spaces, line breaks or non-ASCII characters", where=where, remedy="copy it again"
        )
    return secret
