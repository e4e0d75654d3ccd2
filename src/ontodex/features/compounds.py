"""Split compound words into words of the training documents: Umweltschutz into Umwelt and Schutz.

A word is split where both sides are more frequent than the word itself, on average. Letters that
link them (Wirtschaft-s-politik) are left out. No dictionary is needed, so it works in any language
that writes compounds as one word.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

MAX_PARTS = 4
# Languages that write most compounds as one word.
COMPOUNDING = frozenset({"af", "da", "de", "et", "fi", "hu", "is", "lb", "nb", "nl", "nn", "sv"})
_LEAST_LETTERS = 4  # of a part
_LINKS = ("", "s", "es", "n", "en")
_KNOWN = 2**17  # words whose parts are remembered


class CompoundSplitter:
    """Splits words by the rarity of the words of training documents, such as their idf."""

    def __init__(self, rarity: Mapping[str, float]) -> None:
        self._rarity = rarity
        self.split = lru_cache(_KNOWN)(self._split)

    def _split(self, word: str) -> tuple[str, ...]:
        """Return the parts of a word, at most MAX_PARTS; none where it is not a compound."""
        best, least = None, self._rarity.get(word, float("inf"))
        if word.isalpha():
            for border in range(_LEAST_LETTERS, len(word) - _LEAST_LETTERS + 1):
                second = self._rarity.get(word[border:])
                if second is None:
                    continue
                for link in _LINKS:
                    first = self._find_first(word[:border], link)
                    if first is not None and (self._rarity[first] + second) / 2 < least:
                        best, least = (first, word[border:]), (self._rarity[first] + second) / 2
        if best is None:
            return ()
        parts = [part for half in best for part in (self._split(half) or (half,))]
        return tuple(parts) if len(parts) <= MAX_PARTS else best

    def _find_first(self, text: str, link: str) -> str | None:
        """Return the known word in front of linking letters."""
        word = text.removesuffix(link)
        is_word = text.endswith(link) and len(word) >= _LEAST_LETTERS and word in self._rarity
        return word if is_word else None
