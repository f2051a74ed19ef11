"""Expiring tokens, signed with the common secret, so that any instance can check them."""

import hashlib
import hmac
import time


def issue(secret: str, user: str, seconds: float) -> str:
    """Return a token for a user, valid for so many s."""
    said = f"{user}.{int(time.time() + seconds)}"
    return f"{said}.{_signature(secret, said)}"


def user_of(secret: str, token: str) -> str | None:
    """Return the user of a token; None if it is invalid or expired."""
    said, _, signature = token.rpartition(".")
    user, _, until = said.rpartition(".")
    if not user or not hmac.compare_digest(signature, _signature(secret, said)) or int(until) < time.time():
        return None
    return user


def _signature(secret: str, said: str) -> str:
    return hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()[:32]
