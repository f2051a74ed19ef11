"""Random damage to texts, for tests of the robustness of readers."""

import random
from collections.abc import Iterator, Sequence

#: Characters with a meaning in YAML, and some unusual ones.
_MARKS = "{}[]:,-&*!|>'\"%@`#?\t\n $\\~0\u2028\u00e9\U0001f600"


def damaged(sound: str, words: Sequence[str], *, times: int = 400, seed: int = 3) -> Iterator[str]:
    """Yield the text with one to three damages: a cut, a mark, a value that became one of the words, a repetition."""
    chance = random.Random(seed)
    for _ in range(times):
        text = sound
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            match chance.randrange(4):
                case 0:
                    text = text[:at] + text[at + chance.randint(1, 12) :]
                case 1:
                    text = text[:at] + chance.choice(_MARKS) + text[at:]
                case 2:
                    start = text.find(": ", at) + 2
                    text = text[:start] + chance.choice(words) + text[start + chance.randint(0, 8) :]
                case 3:
                    text = text[:at] + text[max(0, at - 40) : at] + text[at:]
        yield text
