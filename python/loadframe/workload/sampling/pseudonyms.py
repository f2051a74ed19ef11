"""Pseudonyms: random replacements of sampled values, with the same length and kinds of characters; and their runs.

A pseudonym does not depend on the value that it replaces, except for its shape, so it cannot be reversed. Equal values
get equal pseudonyms. No pseudonym equals a sampled value, except if too many texts of up to three characters were
sampled.
"""

import os
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

#: Numbers with at least this many digits are identifiers: they are replaced, never repeated.
LONG_NUMBER = 7
#: Attempts to draw a value that was not sampled.
_ATTEMPTS = 50
#: Attempts that keep all shared words.
_STRICT_ATTEMPTS = 10
#: Characters after the shared beginning of words that stay random.
_RANDOM_CHARACTERS = 10
#: Shortest value for which a pseudonym may become longer, if all of its length were sampled.
_LENGTHENED = 4

_IDENTIFIER = re.compile(
    rf"@|://|[0-9]{{{LONG_NUMBER},}}|[0-9a-f]{{8}}-[0-9a-f]{{4}}|[0-9a-f]{{16}}|(?:[0-9][ ./()-]{{0,3}}){{9}}"
    r"|(?:\d{1,3}\.){3}\d|[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:)+[0-9a-f]",
    re.I,
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{12}", re.I)
_IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])")
_HEX = frozenset("abcdefABCDEF")
WORD = re.compile(r"\w+")
#: Neighbours in a text or an array stay neighbours if at least this many texts or arrays share the pair.
_SHARED = 5
#: Maximum number of values with counted pairs, which need much memory.
_COUNTED = 2_000_000
#: The fewest runs of a sample in which values of one run only are local.
_RUNS = 20
_Value = TypeVar("_Value", bound=Hashable)


def looks_like_identifier(text: str) -> bool:
    """Return whether a text contains an e-mail, URL or IP address, 7 digits in a row or a UUID.

    Also for 16 hexadecimal digits in a row, and for 9 digits with separators such as spaces. Part of the text suffices.
    """
    return bool(_IDENTIFIER.search(text))


def is_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address."""
    return bool(_IPV4.fullmatch(text))


class Run:
    """A run of generated documents, which resemble a run of sampled ones: neighbours in the collection."""

    def __init__(self, rng: random.Random, scale: float) -> None:
        """Begin a run that draws from `rng`; `scale` is the number of generated documents per sampled one."""
        self.rng = rng
        self.scale = scale
        #: Pseudonyms of words and keywords that only this run has.
        self.words: dict[str, str] = {}
        self.pseudonyms: dict[Hashable, str] = {}
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of `make`, which is called once per key and run."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def other(self, key: Hashable, place: int, count: int) -> int:
        """Return (`place` + shift) modulo `count`; the shift is random, and the same in the run for each key."""
        shift: int = self.once(("shift", key), lambda: self.rng.randrange(2**30))
        return (place + shift) % count


def local(placed: Iterable[tuple[int, _Value]], span: int) -> frozenset[_Value]:
    """Return the values with less than `span` between their first and last place.

    `placed` are pairs of place and value, by ascending place. If the last place is below 20 spans, returns the values
    that occur in one place only.
    """
    first: dict[_Value, int] = {}
    last: dict[_Value, int] = {}
    end = 0
    for place, value in placed:
        first.setdefault(value, place)
        last[value] = end = place
    width = span if end >= _RUNS * span else 1
    return frozenset(value for value, place in first.items() if last[value] - place < width)


def shared_pairs(sequences: Sequence[Sequence[_Value]]) -> frozenset[tuple[_Value, _Value]]:
    """Return the pairs of neighbours that at least 5 sequences contain.

    If the sequences have 2 million values or more, only every nth is counted.
    """
    step = 1 + sum(map(len, sequences)) // _COUNTED
    counts = Counter(pair for sequence in sequences[::step] for pair in set(pairwise(sequence)))
    return frozenset(pair for pair, count in counts.items() if count >= _SHARED)


def rearranged(
    sequences: Sequence[Sequence[_Value]], pairs: frozenset[tuple[_Value, _Value]], rng: random.Random
) -> list[list[_Value]]:
    """Return copies of sequences in which values outside of shared `pairs` are exchanged at random.

    A value takes all such places of another one that has as many of them, so that similar sequences stay similar.
    """
    alone = [
        [
            (place == 0 or (sequence[place - 1], value) not in pairs)
            and (place + 1 == len(sequence) or (value, sequence[place + 1]) not in pairs)
            for place, value in enumerate(sequence)
        ]
        for sequence in sequences
    ]
    counts = Counter(
        value
        for sequence, flags in zip(sequences, alone, strict=True)
        for value, flag in zip(sequence, flags, strict=True)
        if flag
    )
    groups: dict[int, list[_Value]] = {}
    for value, count in counts.items():
        groups.setdefault(count, []).append(value)
    instead: dict[_Value, _Value] = {}
    for group in groups.values():
        instead.update(zip(group, rng.sample(group, len(group)), strict=True))
    return [
        [instead[value] if flag else value for value, flag in zip(sequence, flags, strict=True)]
        for sequence, flags in zip(sequences, alone, strict=True)
    ]


class Growth:
    """Growth of a vocabulary with the number of documents, by Heaps' law: V(n) = k n^b.

    Values that occur in one run of the sample grow it; b is their share of the distinct values.
    """

    def __init__(self, counts: Mapping[Any, int], local_values: frozenset[Any]) -> None:
        """`counts` are the occurrences of all sampled values, `local_values` those of them that `local` returns."""
        self.local = local_values
        self._distinct = len(counts)
        self._seen: set[Any] = set()

    def is_new(self, value: Hashable, run: Run) -> bool:
        """Return whether a run of documents replaces a local value by a new one. Call it once for each value and run.

        The first call for a value returns False. Later calls are random, so that the vocabulary grows by Heaps' law
        with `run.scale`; for a scale of at most 1, they return True.
        """
        if value not in self._seen:
            self._seen.add(value)
            return False
        more = run.scale - 1
        if more <= 0:
            return True
        grown: float = self._distinct * (run.scale ** (len(self.local) / self._distinct) - 1)
        return run.rng.random() < grown / (more * len(self.local))


class Parts:
    """Parts that several texts share, such as the host of addresses: words, and the beginning of long words.

    Stores compress repeated parts, so that pseudonyms without them would need more space.
    """

    def __init__(self, texts: Sequence[str], span: int) -> None:
        """Find the shared words and the shared beginning of `texts`, in the order of the collection.

        `span` is the number of texts in a run of documents.
        """
        distinct = set(texts)
        words = Counter(word for text in distinct for word in set(WORD.findall(text)))
        self.words = frozenset(word for word, count in words.items() if count > 1)
        #: Words of one run only.
        self.local = local(((place, word) for place, text in enumerate(texts) for word in WORD.findall(text)), span)
        begin = os.path.commonprefix(list(distinct)) if len(distinct) > 1 else ""  # noqa: RUF071 - not paths
        # Enough characters must stay random for distinct values.
        room = min(map(len, distinct), default=0) - _RANDOM_CHARACTERS
        self.begin = begin[: max(room, 0)] if WORD.fullmatch(begin) and all(map(WORD.fullmatch, distinct)) else ""


class Pseudonyms:
    """Stable pseudonyms of texts, words and numbers, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        """Begin without pseudonyms; equal seeds and calls give equal pseudonyms."""
        self._random = random.Random(f"pseudonyms:{seed}")
        self._sampled: set[str] = set()
        self._texts: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._used: set[str] = set()

    def avoid(self, texts: Iterable[str]) -> None:
        """Record sampled texts: new pseudonyms avoid them and their words, in upper and lower case."""
        for text in texts:
            self._sampled.add(text.casefold())
            self._sampled.update(WORD.findall(text.casefold()))

    def is_sampled(self, text: str) -> bool:
        """Return whether a text was sampled, as a value or as a word of one, in upper or lower case."""
        return text.casefold() in self._sampled

    def of(self, text: str, parts: "Parts | None" = None) -> str:
        """Return the pseudonym of a text, drawn at the first call; `parts` shared with others get their pseudonyms.

        Later calls return the same, whatever `parts` is.
        """
        if text not in self._texts:
            self._texts[text] = self.unused(text, parts)
        return self._texts[text]

    def known(self, text: str) -> str:
        """Return the pseudonym of a text of a query: of the value if it has one, else word by word.

        Words without a pseudonym get one.
        """
        return self._texts.get(text) or WORD.sub(lambda match: self.word(match[0]), text.replace("@", "-"))

    def word(self, word: str) -> str:
        """Return the pseudonym of a word, drawn at the first call, the same for all capitalizations.

        It is in upper case or capitalized like the word.
        """
        folded = word.lower()
        if folded not in self._words:
            self._words[folded] = self.unused(folded)
        replacement = self._words[folded]
        if word.isupper() and len(word) > 1:
            return replacement.upper()
        return replacement[:1].upper() + replacement[1:] if word[:1].isupper() else replacement

    def number(self, number: int) -> int:
        """Return the pseudonym of a whole number, drawn at the first call, with as many digits and the same sign."""
        if number not in self._numbers:
            digits = len(str(abs(number)))
            # Numbers of 64 bits stay numbers of 64 bits.
            end = min(10**digits, 2**63) if abs(number) < 2**63 else 10**digits
            drawn = self._random.randint(10 ** (digits - 1), end - 1)
            self._numbers[number] = drawn if number >= 0 else -drawn
        return self._numbers[number]

    def fresh(
        self, like: str, parts: "Parts | None" = None, words: dict[str, str] | None = None, *, loosely: bool = False
    ) -> str:
        """Return a random text of the shape of `like` that was not sampled; it may have been returned before.

        If 50 attempts give sampled texts, the last is returned, with a letter appended if `like` has 4 characters or
        more. `parts`, which other texts share, get their pseudonyms; with `loosely`, and after 10 attempts, half of the
        shared words are new. `words` holds the pseudonyms of words that only this run has, and gets those of new ones.
        """
        for attempt in range(_ATTEMPTS):
            is_loose = loosely or attempt >= _STRICT_ATTEMPTS
            text = self._shaped(like) if parts is None else self._composed(like, parts, words, loosely=is_loose)
            if text.casefold() not in self._sampled:
                return text
        return text + self._random.choice(string.ascii_lowercase) if len(like) >= _LENGTHENED else text

    def _composed(self, like: str, parts: "Parts", words: dict[str, str] | None, *, loosely: bool) -> str:
        """Return a random text of the shape of `like`; shared words and the shared beginning become their pseudonyms.

        For `parts`, `words` and `loosely`, see `fresh`.
        """
        if is_ipv4(like) or _UUID.fullmatch(like):
            return self._shaped(like)

        def replaced(match: re.Match[str]) -> str:
            """Return the pseudonym of a word; a random word if no other text has it."""
            word = match[0]
            if word not in parts.words or (loosely and self._random.random() < 0.5):
                return self.fresh(word)
            if words is None or word not in parts.local:
                return self.word(word)
            if word not in words:
                words[word] = self.fresh(word)
            return words[word]

        begin = parts.begin if like.startswith(parts.begin) else ""
        rest = WORD.sub(replaced, like[len(begin) :])
        return (self.word(begin) if begin else "") + rest.replace("@", "-")

    def unused(self, like: str, parts: "Parts | None" = None, words: dict[str, str] | None = None) -> str:
        """Return a random text of the shape of `like` that was neither sampled nor returned here before; record it.

        If 50 attempts fail, as for short texts, it repeats one. For `parts` and `words`, see `fresh`.
        """
        for attempt in range(_ATTEMPTS):
            text = self.fresh(like, parts, words, loosely=attempt >= _STRICT_ATTEMPTS)
            if text not in self._used:
                break
        self._used.add(text)
        return text

    def _shaped(self, like: str) -> str:
        """Return a random text of the length of `like` with characters of the same kinds.

        An IPv4 address and a UUID stay valid; the address may have another length.
        """
        if is_ipv4(like):
            return ".".join(str(self._random.randint(1, 254)) for _ in range(4))
        hexadecimal = len(like) >= 8 and all(c in _HEX for c in like if c.isalpha())
        text = "".join(self._character(c, hexadecimal) for c in like)
        uuid = _UUID.fullmatch(like)
        # The version and the variant of a UUID decide whether a store accepts it.
        return f"{text[:14]}{uuid[1]}{text[15:19]}{uuid[2]}{text[20:]}" if uuid else text

    def _character(self, c: str, hexadecimal: bool) -> str:
        """Return a random character of the same kind; punctuation stays, and `@` becomes `-`.

        `hexadecimal`: letters are at most f. A non-ASCII letter is replaced by one with as many bytes in UTF-8.
        """
        if c in string.digits:
            return self._random.choice(string.digits)
        if c in string.ascii_lowercase:
            return self._random.choice("abcdef" if hexadecimal else string.ascii_lowercase)
        if c in string.ascii_uppercase:
            return self._random.choice("ABCDEF" if hexadecimal else string.ascii_uppercase)
        if c == "@":
            return "-"
        if c.isascii() or not c.isalnum():
            return c
        # A letter with as many bytes in UTF-8.
        first, last = {2: (0xE0, 0xF6), 3: (0x4E00, 0x9FA5)}.get(len(c.encode()), (0x20000, 0x2A6D6))
        return chr(self._random.randint(first, last))
