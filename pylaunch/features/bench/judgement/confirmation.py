"""Verdict on slow nodes and links: suspects are measured again, and chance is excluded. Pure.

    confirmations   rounds in which suspects meet good nodes and each other; other nodes are measured beside them
    pair_verdict    nodes and links that are slow; suspects that remain unclear are not accused

A node is slow only if its rates are low in the first rounds and in these, and if chance does not explain it: with equal
nodes, however noisy, one verdict in 1 / MOST_ERROR names a good node.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from math import comb
from statistics import median

from pylaunch.base.dataclass import dataclass
from pylaunch.features.bench.judgement.pairs import LOW, MOST_NOISE, Pair, PairRate, Screening, other_of
from pylaunch.features.bench.ranks.rounds import pairs_of, round_count

MOST_ERROR = 1e-4
"""Probability that chance makes a verdict name any good node."""

MOST_ROUNDS = 16
"""Rounds that confirm a suspicion."""

MOST_LINK_ERROR = 1e-3
"""As MOST_ERROR, for links, of which there are far more, each with fewer rates."""

FEWEST_ROUNDS = 2
FEW_KIN = 4
MANY_KIN = 1 / 16
"""Share of the nodes. So few or so many suspects and doubtful nodes meet each other twice: another load may disturb one
meeting, and the nodes behind a slow path would look slow themselves. Between the two numbers, the meetings of the
others show the path, and a further round is saved."""

NORMAL = (1 + LOW) / 2
"""Share of the usual rate from which a suspect is normal."""

MOST_LINKS = 256
"""Suspect links that are measured again; the lowest ones, if there are more."""


@dataclass(frozen=True)
class SlowNode:
    """Node that is slow with good partners."""

    node: int
    share: float
    """Median of its rates with good partners, relative to pairs of others."""

    rate: float
    """GB/s in each direction."""

    partners: tuple[int, ...]


@dataclass(frozen=True)
class SlowLink:
    """Pair that is slow though both nodes are not."""

    pair: Pair
    share: float
    rate: float


@dataclass(frozen=True)
class PairVerdict:
    """Verdict on all nodes."""

    nodes: tuple[SlowNode, ...] = ()
    links: tuple[SlowLink, ...] = ()
    apart: tuple[int, ...] = ()
    """Nodes that are slow with others and normal among themselves: a path that they share is slow, not they."""

    unclear: tuple[int, ...] = ()
    """Suspects that were neither confirmed nor cleared: low in some rounds, or too few to exclude chance."""

    cleared: tuple[int, ...] = ()
    """Suspects that are normal with good partners."""

    abstained: str = ""


def confirmations(screening: Screening) -> tuple[tuple[Pair, ...], ...]:
    """Return the rounds that decide about the suspects; () if there are none.

    A suspect meets other suspects or doubtful nodes once or twice. In other rounds it meets good nodes, if possible
    new ones: a link to an earlier partner may be slow. Suspect links are measured again. Other nodes are measured at
    the same time, to compare with.
    """
    suspects, links = list(screening.suspects), list(screening.links[:MOST_LINKS])
    if screening.abstained or not (suspects or links):
        return ()
    met = {each.pair for each in screening.rates}
    rounds: list[tuple[Pair, ...]] = []
    for number in range(_round_count(screening)):
        between = _between(screening.kin, number, _meetings(screening))
        busy = {node for pair in between for node in pair}
        pairs = list(between)
        for suspect in (node for node in suspects if node not in busy):
            free = [node for node in _rotated(screening.good, number) if node not in busy]
            partner = next((node for node in free if _pair(suspect, node) not in met), free[0] if free else None)
            if partner is not None:
                pairs.append(_pair(suspect, partner))
                busy |= {suspect, partner}
        for link in links:
            if not busy & set(link):
                pairs.append(link)
                busy |= set(link)
        met |= set(pairs)
        others = list(_others(screening, busy, number))
        rounds.append(tuple(sorted([*pairs, *others])))
        if not others:
            rounds.append(tuple(sorted(_others(screening, set(), number))))
    return tuple(each for each in rounds if each)


def _round_count(screening: Screening) -> int:
    """Return the number of rounds after which one suspicious rate of other nodes does not prevent a verdict."""
    fewest = FEWEST_ROUNDS - 1 + max(1, _meetings(screening))
    return next((count for count in range(fewest, MOST_ROUNDS) if _is_enough(screening, count)), MOST_ROUNDS)


def _meetings(screening: Screening) -> int:
    """Return the number of meetings of each node of the kin with others of it."""
    count = len(screening.kin)
    if count < 2:
        return 0
    return 1 if FEW_KIN < count < MANY_KIN * screening.nodes else 2


def _is_enough(screening: Screening, rounds: int) -> bool:
    suspects = set(screening.suspects)
    beside = max(1, (screening.nodes - 2 * len(suspects) - 2 * bool(screening.links)) // 2)
    others = rounds * beside + sum(not set(each.pair) & suspects for each in screening.rates)
    pairs = len({each.pair for each in screening.rates})
    kin = set(screening.kin)
    met = {
        node: sum(node in each.pair and len(kin & set(each.pair)) == 1 for each in screening.rates) for node in suspects
    }
    draws = min(met.values(), default=0) + rounds - _meetings(screening)
    is_enough = {
        "suspects": not suspects or best_chance(draws, others, screening.nodes) <= MOST_ERROR,
        "links": not screening.links or best_chance(1 + rounds, others, pairs) <= MOST_LINK_ERROR,
    }
    return all(is_enough.values())


def _between(kin: Sequence[int], number: int, meetings: int) -> list[Pair]:
    """Return the pairs among `kin` in round `number`: neighbours in a circle; an odd node meets in a further round."""
    if number < meetings:
        shifted = (*kin[number:], *kin[:number])
        return [_pair(*two) for two in zip(shifted[::2], shifted[1::2], strict=False)]
    is_odd = len(kin) > 1 and len(kin) % 2 == 1
    return [_pair(kin[0], kin[-1])] if number == meetings and is_odd else []


def _others(screening: Screening, busy: set[int], number: int) -> Iterator[Pair]:
    """Yield disjoint pairs of nodes that are no suspects and not `busy`, others in each round."""
    free = [node for node in sorted(screening.scores) if node not in busy and node not in screening.suspects]
    links = set(screening.links)
    if len(free) > 1:
        for first, second in pairs_of(number % round_count(len(free)), len(free)):
            pair = _pair(free[first], free[second])
            if pair not in links:
                yield pair


def _rotated(nodes: Sequence[int], number: int) -> Sequence[int]:
    by = number % max(1, len(nodes))
    return (*nodes[by:], *nodes[:by])


def _pair(one: int, other: int) -> Pair:
    return (min(one, other), max(one, other))


def pair_verdict(screening: Screening, confirmed: Iterable[PairRate]) -> PairVerdict:
    """Return the verdict, from the first rounds and the rates of the confirmation rounds."""
    if screening.abstained:
        return PairVerdict(abstained=screening.abstained)
    again = tuple(confirmed)
    every = (*screening.rates, *again)
    kin = set(screening.kin)
    others = [each.rate for each in every if not set(each.pair) & kin and each.pair not in screening.links]
    if not others:
        return PairVerdict(abstained="all pairs contain a suspect: there is nothing to compare with")
    usual = median(others)
    pairs = _Compared(screening.nodes, set(screening.suspects), kin, every, again, others, usual)
    found: dict[str, list[int]] = {"slow": [], "apart": [], "unclear": [], "cleared": []}
    for suspect in screening.suspects:
        found[pairs.state(suspect)].append(suspect)
    together = pairs.together(set(found["cleared"]))
    hidden = [node for node in found["slow"] if together and not pairs.is_low_with(node, together)]
    found["slow"] = [node for node in found["slow"] if node not in hidden]  # It may share the path with them.
    found["unclear"] += hidden
    slow = tuple(pairs.slow(node) for node in found["slow"])
    links = tuple(_slow_links(screening, again, others, usual))
    if not (slow or links or found["apart"]) and screening.noise > MOST_NOISE:
        return PairVerdict(
            unclear=tuple(found["unclear"]),
            abstained=f"rates of healthy pairs differ by {screening.noise:.0%}: the network is in use or unstable",
        )
    apart, unclear, cleared = (tuple(found[state]) for state in ("apart", "unclear", "cleared"))
    return PairVerdict(slow, links, apart, unclear, cleared)


@dataclass(frozen=True)
class _Compared:
    """Rates of suspects beside those of other nodes."""

    nodes: int
    suspects: set[int]
    kin: set[int]
    every: Sequence[PairRate]
    again: Sequence[PairRate]
    others: Sequence[float]
    usual: float

    def state(self, suspect: int) -> str:
        """Return the field of `PairVerdict` for `suspect`; "slow" for `nodes`."""
        fresh = [each.rate for each in self.again if suspect in each.pair]
        with_good = [each.rate for each in self._with_good(suspect, self.again)]
        rates = [each.rate for each in self._with_good(suspect, self.every)]
        if with_good and median(with_good) >= NORMAL * self.usual:
            return "cleared"
        if chance(rates, self.others, self.nodes) > MOST_ERROR or median(rates) >= LOW * self.usual:
            return "unclear"
        if any(suspect in pair for pair in self._normal_kin()):
            return "apart"
        return "unclear" if self._is_normal_with_one(suspect) or median(fresh) >= LOW * self.usual else "slow"

    def _is_normal_with_one(self, suspect: int) -> bool:
        """Return True if all new rates with one good partner are normal, two at least: links to others are slow."""
        with_partner: dict[int, list[float]] = {}
        for each in self._with_good(suspect, self.again):
            with_partner.setdefault(other_of(each.pair, suspect), []).append(each.rate)
        return any(len(rates) > 1 and min(rates) >= NORMAL * self.usual for rates in with_partner.values())

    def slow(self, node: int) -> SlowNode:
        found = self._with_good(node, self.every)
        level = median(each.rate for each in found)
        partners = sorted({other_of(each.pair, node) for each in found})
        return SlowNode(node, level / self.usual, level, tuple(partners))

    def together(self, cleared: set[int]) -> set[int]:
        """Return the suspects and doubtful nodes that are normal with each other, without those that are `cleared`."""
        return {node for pair in self._normal_kin() if not cleared & set(pair) for node in pair}

    def is_low_with(self, node: int, nodes: set[int]) -> bool:
        """Return True if `node` was low each time with `nodes`, twice at least: other load may disturb one meeting."""
        rates = [each.rate for each in self.every if node in each.pair and other_of(each.pair, node) in nodes]
        return len(rates) > 1 and max(rates) < LOW * self.usual

    def _normal_kin(self) -> list[Pair]:
        normal = (each.pair for each in self.every if each.rate >= NORMAL * self.usual)
        return [pair for pair in normal if set(pair) <= self.kin and set(pair) & self.suspects]

    def _with_good(self, node: int, rates: Iterable[PairRate]) -> list[PairRate]:
        return [each for each in rates if node in each.pair and other_of(each.pair, node) not in self.kin]


def _slow_links(
    screening: Screening, again: Sequence[PairRate], others: Sequence[float], usual: float
) -> Iterator[SlowLink]:
    """Yield the links that were low in all rounds, if chance does not explain it."""
    candidates = len({each.pair for each in screening.rates})
    for link in screening.links:
        fresh = [each.rate for each in again if each.pair == link]
        rates = [*fresh, *(each.rate for each in screening.rates if each.pair == link)]
        is_low = len(fresh) >= FEWEST_ROUNDS and max(rates) < screening.link_threshold * usual
        if is_low and chance(rates, others, candidates) <= MOST_LINK_ERROR:
            yield SlowLink(link, median(rates) / usual, median(rates))


def chance(draws: Sequence[float], others: Sequence[float], candidates: int) -> float:
    """Return a bound of the probability that chance makes `draws` of any of `candidates` as low among `others`.

    The test compares ranks and assumes no distribution: of k rates of a suspect and K of others, the probability that
    the k are among the lowest k + t is C(k + t, t) / C(k + K, k), for each of the nodes that could be the suspect.
    """
    if not draws or not others:
        return 1.0
    below = bisect_left(sorted(others), max(draws))
    return min(1.0, candidates * comb(len(draws) + below, below) / comb(len(draws) + len(others), len(draws)))


def best_chance(draws: int, others: int, candidates: int) -> float:
    """Return the bound of `chance` for rates that are lower than all of `others` but one."""
    return candidates * (draws + 1) / comb(draws + others, draws)
