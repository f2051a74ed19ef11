"""Where secrets come from: a file, the environment, or the person at the terminal. Never from the command line, which
everybody on the machine can read."""

import getpass
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.user_input import read_input
from loadframe.store.access import Auth

PASSWORD = "LOADFRAME_PASSWORD"
API_KEY = "LOADFRAME_API_KEY"
TOKEN = "LOADFRAME_TOKEN"

#: No secret is longer.
_MOST = 1 << 20

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
    """Return who asks, as options and else the environment have it; None for nobody.

    A user's password is asked for at the terminal if it is nowhere else. BadInput when it cannot be told who asks.
    `warn` is told of files that others can read.
    """
    given = [
        option
        for option, value in (("--user", user), ("--api-key-file", api_key_file), ("--token-file", token_file))
        if value is not None
    ]
    if len(given) > 1:
        raise BadInput(f"{' and '.join(given)} each say who asks", remedy="give one of them")
    if password_file and user is None:
        raise BadInput("--password-file has a password and nobody whose it is", remedy="give --user, too")
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
    """Return the secret in a file, without the line's end; BadInput if there is none."""
    try:
        text = read_input(file, _MOST).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise BadInput("the secret cannot be read: it is not text", where=str(file)) from None
    except BadInput as error:
        why = error.what.removeprefix("cannot read the file: ")
        raise BadInput(f"the secret cannot be read: {why}", where=str(file), remedy=error.remedy) from None
    warn_if_open(file, warn)
    if not text:
        raise BadInput("the file is empty", where=str(file), remedy="put the secret into it, and nothing else")
    return text


def warn_if_open(file: Path, warn: Warn) -> None:
    """Warn when other users of this machine can read a file that holds a secret."""
    mode = file.stat().st_mode
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"{file} holds a secret and others can read it (mode {stat.S_IMODE(mode):o}): chmod 600 {file}")


def _basic(user: str, password_file: Path | None, warn: Warn, environment: Mapping[str, str]) -> Auth:
    if ":" in user:
        raise BadInput(
            "a user's name has no colon",
            where="--user",
            remedy=f"a password goes into --password-file or {PASSWORD}: the command line is seen by everybody",
        )
    if password_file:
        return Auth("basic", read(password_file, warn), user)
    password = environment.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise BadInput(
                f"there is no password for {user}, and no terminal to ask at",
                remedy=f"give --password-file, or set {PASSWORD}",
            )
        password = getpass.getpass(f"Password for {user}: ")
    return Auth("basic", password, user)


def _visible(secret: str, where: str) -> str:
    """Refuse what a header cannot carry, before anybody is asked."""
    if not all("!" <= character <= "~" for character in secret):
        raise BadInput("the secret has spaces, lines or letters that no key has", where=where, remedy="copy it again")
    return secret
