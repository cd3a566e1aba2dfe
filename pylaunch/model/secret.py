"""Variables whose values nobody may read: which they are, and a type that does not print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

MASK = "***"
"""What stands in place of a secret in everything that is printed or kept."""

_LAST_WORDS = frozenset(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS", "PAT"}
)
_KINDS_OF_KEY = frozenset({"API", "ACCESS", "SECRET", "PRIVATE", "ACCOUNT", "AUTH", "ENCRYPTION", "SIGNING"})


class Secrets(Mapping[str, str]):
    """Variables by name. Their values come out by name alone; printing shows which there are."""

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
    """The name of a variable says that its value is a secret: HF_TOKEN, WANDB_API_KEY, AWS_SECRET_ACCESS_KEY.

    Not those that only contain such a word: TOKENIZERS_PARALLELISM, MAX_TOKENS, AWS_ACCESS_KEY_ID, SORT_KEY.
    """
    words = name.upper().split("_")
    if words[-1] in _LAST_WORDS:
        return True
    return words[-1] == "KEY" and len(words) > 1 and words[-2] in _KINDS_OF_KEY
