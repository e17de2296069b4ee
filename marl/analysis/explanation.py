"""Why matches were lost: tables over all lost matches by cause, turn, length and colour, and a text of ten lines."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from arena.deaths import CAUSES, FOE_HEAD, Death, DecisiveTurn
from arena.render.events import death_text
from arena.rules import TURNS
from arena.snake_names import TEAMS, snake_name
from marl.analysis.losses import LostMatch

LONGER, EQUAL, SHORTER = (f"head of {word} foe" for word in ("a longer", "an equally long", "a shorter"))
# Causes of death, the head-on ones by the foe's length before the turn.
KINDS = tuple(kind for cause in CAUSES for kind in ((LONGER, EQUAL, SHORTER) if cause == FOE_HEAD else (cause,)))
TURN_BINS = {"1-50": 50, "51-100": 100, "101-150": 150, "151-200": TURNS}  # name -> last turn
LENGTH_BINS = {"3": 3, "4-7": 7, "8-12": 12, "13-19": 19, "20 or more": 200}  # name -> largest length
LEAD_TURNS = (50, 100, 150)
TELLING = 3


@dataclass(frozen=True)
class Explanation:
    """Why home lost: all lost matches together."""

    matches: int  # that were played
    forfeits: int  # lost because home is a submission that failed: not among those below
    lost: list[LostMatch]

    @property
    def deaths(self) -> list[Death]:
        """Home's deaths in all lost matches."""
        return [death for match in self.lost for death in match.deaths]

    @property
    def telling(self) -> list[tuple[LostMatch, DecisiveTurn]]:
        """The most telling matches, see tellingness."""
        decided = [(match, decisive) for match in self.lost if (decisive := match.decisive) is not None]
        return sorted(decided, key=lambda pair: tellingness(*pair))[:TELLING]

    @property
    def mean_leads(self) -> list[float]:
        """Home's mean lead after each turn; a match that ended early keeps its last one."""
        return [mean(_at(match.leads, turn) for match in self.lost) for turn in range(TURNS + 1)] if self.lost else []

    def as_dict(self) -> dict[str, Any]:
        """All tables, for JSON and for the picture."""
        lost, deaths = self.lost, self.deaths
        document: dict[str, Any] = {"lost": len(lost), "forfeited": self.forfeits}
        if not lost:
            return document
        boxed = [death for death in deaths if death.boxed_since is not None]
        waits = [death.turn - death.boxed_since for death in boxed if death.boxed_since is not None]
        colours = {colour: [match for match in lost if match.side == side] for side, colour in enumerate(TEAMS)}
        return document | {
            "mean_deficit": mean(-match.leads[-1] for match in lost),
            "per_match": {
                "home": _balance([(match.scores[0], [death.lost for death in match.deaths]) for match in lost]),
                "away": _balance([(match.scores[1], match.away_lost) for match in lost]),
            },
            "causes": {kind: _tally(of) for kind in KINDS if (of := [d for d in deaths if kind_of(d) == kind])},
            "boxed_in": _tally(boxed) | {"median_turns": median(waits or [0]), "most_turns": max(waits, default=0)},
            "by_turn": _by_bin(deaths, TURN_BINS, lambda death: death.turn),
            "by_length": _by_bin(deaths, LENGTH_BINS, lambda death: death.length),
            "by_colour": {
                colour: {"lost": len(of)} | _with_causes([death for match in of for death in match.deaths])
                for colour, of in colours.items()
            },
            "lead": {
                str(turn): {
                    "mean": mean(_at(match.leads, turn) for match in lost),
                    "ahead": sum(_at(match.leads, turn) > 0 for match in lost),
                }
                for turn in LEAD_TURNS
            },
            "decisive": {
                "turned": sum(_turned(match) for match in lost),
                "median_turn": median([turn.turn for match in lost if (turn := match.decisive) is not None] or [0]),
            },
            "telling": [
                {
                    "match": match.number,
                    "colour": TEAMS[match.side],
                    "turn": decisive.turn,
                    "text": decisive_text(match, decisive),
                }
                for match, decisive in self.telling
            ],
        }

    def text(self) -> list[str]:
        """The explanation in about ten lines."""
        tables, lost = self.as_dict(), len(self.lost)
        forfeited = f"; {self.forfeits:,} forfeited, not counted here" if self.forfeits else ""
        if not lost:
            return [_line("lost", f"none of {self.matches:,} matches{forfeited}")]
        home, away = tables["per_match"]["home"], tables["per_match"]["away"]
        beans, cells, deaths = (f"{home[what]:.1f} : {away[what]:.1f} {what}" for what in ("beans", "cells", "deaths"))
        total = sum(death.lost for death in self.deaths)
        leads = [
            f"{of['mean']:+.1f} after turn {turn} (ahead in {_share(of['ahead'], lost)})"
            for turn, of in tables["lead"].items()
        ]
        lines = [
            _line(
                "lost", f"{lost:,} of {self.matches:,} matches, by {tables['mean_deficit']:.1f} on average{forfeited}"
            ),
            _line("a lost match", f"ate {beans}, lost {cells} by {deaths}"),
            _line("lead", ", ".join(leads)),
            _line("cells lost to", _shares({kind: of["cells"] for kind, of in tables["causes"].items()}, total)),
        ]
        boxed, decisive = tables["boxed_in"], tables["decisive"]
        if boxed["deaths"]:
            turns = f"{boxed['median_turns']:g} turn{'' if boxed['median_turns'] == 1 else 's'}"
            waits = f"no safe move for {turns} before the death (median; {boxed['most_turns']} at the most)"
            lines.append(_line("boxed in", f"{_share(boxed['cells'], total)} of the cells: {waits}"))
        for label, name in (("by turn", "by_turn"), ("by length", "by_length")):
            bins = [
                f"{bin}: {_share(of['cells'], total)}{_main(of)}"
                for bin, of in tables[name].items()
                if _counts(of["cells"], total)
            ]
            lines.append(_line(label, ", ".join(bins) or "nothing"))
        colours = {colour: of for colour, of in tables["by_colour"].items() if of["lost"]}
        each = [
            f"{of['lost']:,} as {on} with {of['cells'] / of['lost']:.1f} cells each{_main(of)}"
            for on, of in colours.items()
        ]
        lines.append(_line("by colour", ", ".join(each)))
        if self.telling:
            turned = (
                f"in {_share(decisive['turned'], lost)} of the matches it cost at least what was lacking in the end"
            )
            lines.append(_line("decisive turn", f"{decisive['median_turn']:g} (median); {turned}"))
        for i, of in enumerate(tables["telling"]):
            label = "" if i else "most telling"
            lines.append(_line(label, f"match {of['match']}, turn {of['turn']}: {of['text']}"))
        return lines


def tellingness(match: LostMatch, decisive: DecisiveTurn) -> tuple[bool, float]:
    """Sorts lost matches: those that one turn alone cost come first, and of these the heaviest turns."""
    return not _turned(match), -decisive.weight


def kind_of(death: Death) -> str:
    """The cause of a death, one of KINDS."""
    if death.cause != FOE_HEAD:
        return death.cause
    return LONGER if death.other_length > death.length else EQUAL if death.other_length == death.length else SHORTER


def decisive_text(match: LostMatch, decisive: DecisiveTurn) -> str:
    """The costliest death of the decisive turn, and what became of the lead."""
    deaths = sorted((death for death in match.deaths if death.turn == decisive.turn), key=lambda death: -death.lost)
    too = "".join(f"; {snake_name(death.snake)} died, too, lost {death.lost}" for death in deaths[1:])
    before, after = match.leads[decisive.turn - 1], match.leads[decisive.turn]
    return f"{death_text(deaths[0], range(TURNS + 1))}{too}; the lead went from {before:+d} to {after:+d}"


def _turned(match: LostMatch) -> bool:
    """Whether the decisive turn alone cost at least what home lacked in the end."""
    decisive = match.decisive
    if decisive is None:
        return False
    return match.leads[decisive.turn - 1] - match.leads[decisive.turn] >= -match.leads[-1]


def _at(leads: Sequence[int], turn: int) -> int:
    return leads[min(turn, len(leads) - 1)]


def _balance(matches: Sequence[tuple[int, Sequence[int]]]) -> dict[str, float]:
    """Means over matches of (score, cells lost by each death): beans eaten, cells lost, deaths."""
    return {
        "beans": mean(score + sum(lost) for score, lost in matches),
        "cells": mean(sum(lost) for _, lost in matches),
        "deaths": mean(len(lost) for _, lost in matches),
    }


def _tally(deaths: Sequence[Death]) -> dict[str, Any]:
    boxed = sum(death.lost for death in deaths if death.boxed_since is not None)
    return {"deaths": len(deaths), "cells": sum(death.lost for death in deaths), "boxed_in_cells": boxed}


def _with_causes(deaths: Sequence[Death]) -> dict[str, Any]:
    cells: Counter[str] = Counter()
    for death in deaths:
        cells[kind_of(death)] += death.lost
    return _tally(deaths) | {"causes": {kind: cells[kind] for kind in KINDS if cells[kind]}}


def _by_bin(deaths: Sequence[Death], bins: dict[str, int], value: Callable[[Death], int]) -> dict[str, dict[str, Any]]:
    tables, least = {}, 0
    for name, most in bins.items():
        tables[name] = _with_causes([death for death in deaths if least < value(death) <= most])
        least = most
    return tables


def _main(group: dict[str, Any]) -> str:
    """The main cause of a group and its share, in brackets."""
    causes = group["causes"]
    main = max(causes, key=causes.__getitem__, default=None)
    return "" if main is None else f" ({main} {_share(causes[main], group['cells'])})"


def _shares(cells: dict[str, int], total: int) -> str:
    ordered: Iterable[tuple[str, int]] = sorted(cells.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{kind} {_share(of, total)}" for kind, of in ordered if _counts(of, total)) or "nothing"


def _counts(part: int, total: int) -> bool:
    """Whether a share is shown: it does not round to 0 %."""
    return part > 0.005 * total


def _share(part: int, total: int) -> str:
    return f"{part / total if total else 0:.0%}"


def _line(label: str, text: str) -> str:
    return f"{label:14} {text}"
