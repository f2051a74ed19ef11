"""Pseudonyms: random replacements of sampled values, with the same length and kinds of characters.

A pseudonym does not depend on the value that it replaces, except for its shape, so it cannot be reversed. Equal values
get equal pseudonyms. No pseudonym equals a sampled value.
"""

import os
import random
import re
import string
from collections import Counter
from collections.abc import Collection, Iterable

#: Numbers with at least this many digits are identifiers: they are replaced, never repeated.
LONG_NUMBER = 7
#: Attempts to draw a value that was not sampled.
_ATTEMPTS = 50
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


def looks_like_identifier(text: str) -> bool:
    """Whether a text contains an address (e-mail, URL, IP), a long number, a UUID or a long hexadecimal number."""
    return bool(_IDENTIFIER.search(text))


def is_ipv4(text: str) -> bool:
    """Whether a text is an IPv4 address."""
    return bool(_IPV4.fullmatch(text))


class Parts:
    """Parts that several texts share, such as the host of addresses: words, and the beginning of long words.

    Stores compress repeated parts, so that pseudonyms without them would need more space.
    """

    def __init__(self, texts: Collection[str]) -> None:
        """Find the shared words and the shared beginning of `texts`, the distinct values of a field."""
        words = Counter(word for text in texts for word in set(WORD.findall(text)))
        self.words = frozenset(word for word, count in words.items() if count > 1)
        begin = os.path.commonprefix(list(texts)) if len(texts) > 1 else ""  # noqa: RUF071 - not paths
        # Enough characters must stay random for distinct values.
        room = min(map(len, texts), default=0) - _RANDOM_CHARACTERS
        self.begin = begin[: max(room, 0)] if WORD.fullmatch(begin) and all(map(WORD.fullmatch, texts)) else ""


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
        """Never return one of these texts, or one of their words, as a pseudonym."""
        for text in texts:
            self._sampled.add(text.casefold())
            self._sampled.update(WORD.findall(text.casefold()))

    def is_sampled(self, text: str) -> bool:
        """Whether a text was sampled, as a value or as a word of one."""
        return text.casefold() in self._sampled

    def of(self, text: str, parts: "Parts | None" = None) -> str:
        """Return the pseudonym of a text; a new one keeps the `parts` that it shares with similar texts."""
        if text not in self._texts:
            self._texts[text] = self._unused(text, parts)
        return self._texts[text]

    def known(self, text: str) -> str:
        """Return the pseudonym of a text of a query: of the value if it has one, else word by word."""
        return self._texts.get(text) or WORD.sub(lambda match: self.word(match[0]), text.replace("@", "-"))

    def word(self, word: str) -> str:
        """Return the pseudonym of a word; upper and lower case stay as they are."""
        folded = word.lower()
        if folded not in self._words:
            self._words[folded] = self._unused(folded)
        replacement = self._words[folded]
        if word.isupper() and len(word) > 1:
            return replacement.upper()
        return replacement[:1].upper() + replacement[1:] if word[:1].isupper() else replacement

    def number(self, number: int) -> int:
        """Return the pseudonym of a whole number, with as many digits."""
        if number not in self._numbers:
            digits = len(str(abs(number)))
            # Numbers of 64 bits stay numbers of 64 bits.
            end = min(10**digits, 2**63) if abs(number) < 2**63 else 10**digits
            drawn = self._random.randint(10 ** (digits - 1), end - 1)
            self._numbers[number] = drawn if number > 0 else -drawn
        return self._numbers[number]

    def fresh(self, like: str, parts: "Parts | None" = None) -> str:
        """Return a new random text of the same shape, which was not sampled; a longer one if all attempts were."""
        for _ in range(_ATTEMPTS):
            text = self._shaped(like) if parts is None else self._composed(like, parts)
            if text.casefold() not in self._sampled:
                return text
        return text + self._random.choice(string.ascii_lowercase) if len(like) >= _LENGTHENED else text

    def _composed(self, like: str, parts: "Parts") -> str:
        """Return a random text in which shared words and the shared beginning have their pseudonyms."""
        if is_ipv4(like) or _UUID.fullmatch(like):
            return self._shaped(like)
        begin = parts.begin if like.startswith(parts.begin) else ""
        words = WORD.sub(lambda m: self.word(m[0]) if m[0] in parts.words else self.fresh(m[0]), like[len(begin) :])
        return (self.word(begin) if begin else "") + words.replace("@", "-")

    def _unused(self, like: str, parts: "Parts | None" = None) -> str:
        """Return a new text that is not the pseudonym of another text, if there is one of this shape."""
        for _ in range(_ATTEMPTS):
            text = self.fresh(like, parts)
            if text not in self._used:
                break
        self._used.add(text)
        return text

    def _shaped(self, like: str) -> str:
        """Return a random text with characters of the same kinds, and a valid address or UUID if it is one."""
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
