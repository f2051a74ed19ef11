"""The newest answers of a phase to the operations that say how theirs are drawn, as files of the run folder."""

import json
from pathlib import Path


class NewestAnswers:
    """Keeps the last answer to each operation, which is JSON as a whole."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    def keep(self, operation: str, answer: bytes) -> None:
        """Keep an answer instead of the one before."""
        self._answers[operation] = answer

    def write(self, folder: Path, phase: str) -> None:
        """Write `answers-PHASE.json`, the answers by operation; nothing where there are none, or none is JSON."""
        answers = {name: read for name, answer in self._answers.items() if (read := _read(answer)) is not None}
        if answers:
            (folder / f"answers-{phase}.json").write_text(json.dumps(answers, indent=1))


def _read(answer: bytes) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return None
