"""Secrets: a rule for the names of variables that are secret, and a type that does not print values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MASK = "***"
"""Replacement of a secret in output and records."""

_LAST_WORDS = frozenset(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS", "PAT"}
)
_KINDS_OF_KEY = frozenset({"API", "ACCESS", "SECRET", "PRIVATE", "ACCOUNT", "AUTH", "ENCRYPTION", "SIGNING"})


class Secrets(Mapping[str, str]):
    """Secret variables by name. Printing shows the names only."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(f'{name}={MASK}' for name in self._values)})"


def sounds_secret(name: str) -> bool:
    """Return True if the name of a variable marks a secret: HF_TOKEN, WANDB_API_KEY, AWS_SECRET_ACCESS_KEY.

    Not those that only contain such a word: TOKENIZERS_PARALLELISM, MAX_TOKENS, AWS_ACCESS_KEY_ID, SORT_KEY.
    """
    words = name.upper().split("_")
    if words[-1] in _LAST_WORDS:
        return True
    return words[-1] == "KEY" and len(words) > 1 and words[-2] in _KINDS_OF_KEY
