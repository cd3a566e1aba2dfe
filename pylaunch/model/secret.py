"""Secrets: a rule for the names of variables that are secret, and a type that does not print values."""

import re
from collections.abc import Iterator, Mapping, Sequence

MASK = "***"
"""Replacement of a secret in output and records."""

_LAST_WORDS = frozenset(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "CREDENTIAL", "CREDENTIALS", "PAT"}
)
NO_SECRET_TOKENS = frozenset((
    "BOS", "CLS", "END", "EOS", "IMAGE", "MASK", "MAX", "NEW", "NUM", "PAD", "PER", "SEP", "SPECIAL", "START", "STOP",
    "UNK",
))  # fmt: skip
"""Words before TOKEN in options that name a token of a vocabulary, or a number of tokens: --pad-token."""

_PASSWORD_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")
_ASSIGNMENT = re.compile(r"[\w.+~-]+=")
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


def secret_options(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names in `command` whose values are probably secrets: --password X, --token=X, api_key=X."""
    return tuple(dict.fromkeys(name for name, _, _ in _masked_words(command)))


def secret_values(command: Sequence[str]) -> tuple[str, ...]:
    """Return the values in `command` that `masked` replaces."""
    found = []
    for _, place, text in _masked_words(command):
        before, _, after = text.partition(MASK)
        found.append(command[place][len(before) : len(command[place]) - len(after)])
    return tuple(dict.fromkeys(found))


def masked(command: Sequence[str]) -> tuple[str, ...]:
    """Return `command` with MASK in place of values that are probably secrets."""
    words = list(command)
    for _, place, text in _masked_words(command):
        words[place] = text
    return tuple(words)


def is_masked(command: Sequence[str]) -> bool:
    """Return True if `masked` has replaced a value in `command`."""
    return any(text == command[place] for _, place, text in _masked_words(command))


def has_password(text: str) -> bool:
    """Return True for a URL with a password."""
    return _PASSWORD_IN_URL.search(text) is not None


def variable_of(option: str) -> str:
    """Return the variable for a secret that an option passes: API_KEY for --model.api-key."""
    return option.lstrip("-+").rpartition(".")[2].replace("-", "_").upper()


def _masked_words(command: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the name of each secret, the place of the word with its value, and that word with MASK in place of it."""
    for place, word in enumerate(command):
        option, equals, value = word.partition("=")
        if has_password(word):
            yield f"argument {place}", place, _PASSWORD_IN_URL.sub(rf"\g<1>{MASK}", word)
        elif equals and value and _ASSIGNMENT.match(word) and _names_secret(option):
            yield option, place, f"{option}={MASK}"
        elif not equals and word.startswith("-") and _names_secret(option):
            following = command[place + 1 : place + 2]
            if following and not following[0].startswith("-"):
                yield option, place + 1, MASK


def _names_secret(option: str) -> bool:
    name = variable_of(option)
    words = name.split("_")
    is_vocabulary = words[-1] == "TOKEN" and words[-2:-1] and words[-2] in NO_SECRET_TOKENS
    return sounds_secret(name) and not is_vocabulary
