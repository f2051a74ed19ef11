"""A small application behind a REST interface, on loopback: users log in, write items and read them back."""

import itertools
import json
import time
from typing import Any

from loopback_server import Handler, LoopbackServer


class RestService(LoopbackServer):
    """Context manager that serves the application. It returns an item only to the user who wrote it.

    `delay`: seconds per answer, for many concurrent requests. `answers`: number of answers after which it closes a
    connection; by default it keeps all open.
    """

    def __init__(self, delay: float = 0.0, answers: int | None = None) -> None:
        self.items: dict[str, tuple[str, Any]] = {}
        self.logins: list[str] = []
        numbers = itertools.count(1)
        service = self

        class Answers(Handler):
            server_version = "rest-service/1.0"
            sys_version = ""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/login":
                    service.logins.append(body["user"])
                    self._answer(200, {"session": {"token": f"token-of-{body['user']}-{next(numbers)}"}})
                elif (user := self._user()) is None:
                    self._answer(401, {"error": "who are you?"})
                else:
                    number = str(next(numbers))
                    service.items[number] = (user, body)
                    self._answer(201, {**body, "id": int(number)}, {"Location": f"/items/{number}"})

            def do_GET(self) -> None:
                user, item = service.items.get(self.path.partition("?")[0].rpartition("/")[2], (None, None))
                if self.path == "/":
                    self._answer(404, {"error": "there is nothing here"})
                elif user is None or user != self._user():
                    self._answer(403, {"error": "not yours"})
                else:
                    self._answer(200, {"owner": user, "item": item})

            def _user(self) -> str | None:
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                return token.split("-")[2] if token.startswith("token-of-") else None

            def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
                time.sleep(delay)
                text = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)
                self.answered = getattr(self, "answered", 0) + 1
                if self.answered == answers:
                    self.close_connection = True

        super().__init__(Answers)
