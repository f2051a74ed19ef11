"""Asks every rank something and gathers the answers up the tree: for what is asked once, before a load."""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from loadframe.ranks import tree
from loadframe.ranks.background import background
from loadframe.ranks.messages import Header
from loadframe.ranks.reach import distances
from loadframe.ranks.wire import Wire

#: What a rank can be asked; each gets what was sent with the question and returns values for JSON.
QUESTIONS: dict[str, Callable[[Any], Any]] = {"distances": distances}


class Survey:
    """One rank's part in a question: its own answer, and those of all ranks behind it."""

    def __init__(self, world: Wire, number: int, question: str, about: Any) -> None:
        self.number = number
        #: For rank 0: the answers by rank.
        self.answers: Future[dict[int, Any]] = Future()
        self._world = world
        self._above = tree.parent(world.rank)
        self._waiting: set[int] = {world.rank, *tree.children(world.rank, world.size)}
        self._gathered: list[list[Any]] = []
        self._own = background(lambda: QUESTIONS[question](about))

    def tick(self) -> bool:
        """Look whether all have answered; if so pass it on, and return that it is over here."""
        if self._world.rank in self._waiting and self._own.done():
            error = self._own.exception()
            self.take(self._world.rank, [[self._world.rank, None if error else self._own.result()]])
        if self._waiting:
            return False
        if self._above is None:
            self.answers.set_result({int(rank): answer for rank, answer in self._gathered})
        else:
            told = json.dumps(self._gathered).encode()
            self._world.send(self._above, {"kind": "answer", "number": self.number}, told)
        return True

    def take(self, source: int, answers: list[list[Any]]) -> None:
        """Take the answers of a rank below and of those behind it."""
        self._waiting.discard(source)
        self._gathered += answers


def hear(surveys: dict[int, Survey], source: int, header: Header, payload: bytes) -> None:
    """Take an answer that has arrived for one of these."""
    survey = surveys.get(header["number"])
    if survey is not None:
        survey.take(source, json.loads(payload))


def wait(survey: Survey, patience: float, look: Callable[[], None]) -> dict[int, Any] | None:
    """Return the answers, None if they do not come in time; `look` is called meanwhile and may raise."""
    until = time.monotonic() + patience
    while not survey.answers.done() and time.monotonic() < until:
        look()
        time.sleep(0.02)
    return survey.answers.result() if survey.answers.done() else None
