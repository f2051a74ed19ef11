"""Tokens that any instance can check: signed with the secret that all of them have, good for some time."""

import hashlib
import hmac
import time


def issue(secret: str, user: str, seconds: float) -> str:
    """Return a token of a user's, good for so many s."""
    said = f"{user}.{int(time.time() + seconds)}"
    return f"{said}.{_signature(secret, said)}"


def user_of(secret: str, token: str) -> str | None:
    """Return whose token it is; None for one that is not ours, or that has expired."""
    said, _, signature = token.rpartition(".")
    user, _, until = said.rpartition(".")
    if not user or not hmac.compare_digest(signature, _signature(secret, said)) or int(until) < time.time():
        return None
    return user


def _signature(secret: str, said: str) -> str:
    return hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()[:32]
