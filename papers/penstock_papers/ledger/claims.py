"""Claims: one statement of a paper each, with its own criterion and verdict; causes, printed only when they
hold; rows, which measure, draw and judge in separate functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_papers.ledger.criteria import (
    CONFIRMED,
    DIFFERS,
    UNDECIDED,
    Criterion,
    Estimate,
    at_level,
    fitted,
    uncertain,
)
from penstock_papers.ledger.effects import uncertainty
from penstock_papers.ledger.opposing import Opposing

if TYPE_CHECKING:
    from penstock_papers.ledger.lab import Lab

NOT_RUN, IN_PART = "not run", "in part"
UNEXPLAINED = "unexplained"
STRADDLES = "the interval of the measurement straddles the criterion"
CORRECTED = "the interval straddles the criterion once it is widened for the number of claims of this row"

# Papers of rows whose ids do not begin with the paper's name.
PREFIXES = {"I": "incast", "D": "dt-dctcp", "M": "sdc-racs", "P": "piqi-rcp", "K": "cbc"}
# What a statement is about.
KINDS = ("number", "bound", "ratio", "order", "shape", "onset", "equal", "none lost")
# What an outcome rests on. An identity or a definition cannot fail, and is not counted.
SIMULATION, MODEL, IDENTITY, DEFINITION = BASES = ("simulation", "model", "identity", "definition")

Measurement = Mapping[str, Any]
"""What a row measured: numbers, `Estimate`s, texts, and lists, arrays and mappings of them. No simulation is
needed to judge it or to draw it.
"""


@dataclass(frozen=True)
class Claim:
    """One check of a statement of a paper.

    `id` is short and stays as it is (D-10/rise is the claim `rise` of D-10). `text` says it in our words,
    `quote` in the paper's, `where` names figure or section. `of` gives the numbers to judge: a key of the
    measurement or a function of it. `criterion` is fixed before the run, `why` says where its tolerance comes
    from. `say` puts the measured numbers in words; without it they are shown with `unit`. `same_as` names the
    claim that this one repeats: it is shown here and counted there.

    `statement` names the sentence of the paper that it checks, `quantity` what is compared with the
    criterion, `basis` what the outcome rests on. `opposing` is a measurement under which it must not hold;
    `unopposed` says why none exists. `part` says what of the statement is judged where it is not all of it.
    """

    id: str
    text: str
    kind: str
    stated: str
    of: str | Callable[[Measurement], Any] = field(repr=False)
    criterion: Criterion = field(repr=False)
    quote: str = ""
    where: str = ""
    why: str = ""
    unit: str = ""
    say: Callable[[Measurement], str] | None = field(default=None, repr=False)
    same_as: str = ""
    statement: str = ""
    quantity: str = ""
    basis: str = SIMULATION
    opposing: Opposing | None = field(default=None, repr=False)
    unopposed: str = ""
    part: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"claim {self.id}: kind {self.kind!r} is none of {', '.join(KINDS)}")

    def value(self, measurement: Measurement) -> Any:
        """The numbers that the claim is judged by. Raises KeyError where the measurement lacks them."""
        return measurement[self.of] if isinstance(self.of, str) else self.of(measurement)

    @property
    def source(self) -> str:
        """Where the numbers come from, in words that change where another measurement is judged."""
        return str(getattr(self.of, "__qualname__", self.of))

    def judge(self, measurement: Measurement) -> Judged:
        """The claim's verdict on these numbers alone. Raises ValueError, naming the claim, for numbers that
        cannot be judged.
        """
        value = self.value(measurement)
        try:
            value = self.criterion.fit(value)
            verdict = self.criterion.judge(value)
        except ValueError as problem:
            raise ValueError(f"claim {self.id}: {problem}") from None
        scale = self.criterion.scale
        said = self.say(fitted(measurement, scale)) if self.say else show(value, self.unit)
        return Judged(self, verdict, said, value, opposed=self.opposed(measurement))

    def opposed(self, measurement: Measurement) -> str:
        """The verdict on the opposing measurement; "" where none is declared, or these runs lack it."""
        if self.opposing is None:
            return ""
        try:

            def value(m: Measurement) -> Any:
                return self.criterion.fit(self.value(m))

            numbers = self.opposing.numbers(value, measurement, self.criterion)
            return self.criterion.judge(numbers)
        except (KeyError, ValueError):
            return ""


def repeated(claim: Claim, row: str, where: str) -> Claim:
    """The claim of another row shown once more, under another figure."""
    return replace(claim, where=where, same_as=f"{row}/{claim.id}")


@dataclass(frozen=True)
class Cause:
    """Why claims do not hold: a sentence that is printed as a reason only where its own experiment supports
    it. Where no cause of a claim is supported it is unexplained, and these were tried and excluded.

    `text` holds in general and names no number; `evidence` has the numbers of this run, which `holds`
    compares. `of` are the claims it explains, all of the row when empty.
    """

    text: str
    holds: Callable[[Measurement], bool] = field(repr=False)
    evidence: Callable[[Measurement], str] = field(repr=False)
    of: tuple[str, ...] = ()

    def tried(self, measurement: Measurement) -> str:
        """The evidence of an experiment that does not support the cause; "" where the measurement has no such
        numbers, as the shortest runs may: then nothing was tried.
        """
        try:
            return self.evidence(measurement)
        except (LookupError, ValueError, ArithmeticError):
            return ""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict; `value` are the numbers it rests on. `because` has each reason's sentence
    with its evidence apart, `reason` is both in one text. `excluded` are the causes of an unexplained claim
    that were tried and that this run does not support, with what it says of them. `alone` is the verdict of
    these runs where what is pinned of others made it another. `outcome` is what a reader is told
    (`penstock_papers.ledger.outcomes`), `opposed` the verdict on the opposing measurement, "" where there is
    none. `quick` is the judgement of quick runs where this is the one that is pinned at full length.
    """

    claim: Claim
    verdict: str
    measured: str
    value: Any = None
    reason: str = ""
    holds_when: str = ""
    because: tuple[tuple[str, str], ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    alone: str = ""
    quick: Judged | None = None
    outcome: str = ""
    opposed: str = ""

    def document(self) -> dict[str, Any]:
        """The claim as `reproduce --json` prints it."""
        return {
            "id": self.claim.id,
            "text": self.claim.text,
            "kind": self.claim.kind,
            "statement": self.claim.statement,
            "quantity": self.claim.quantity,
            "basis": self.claim.basis,
            "outcome": self.outcome,
            "verdict": self.verdict,
            "stated": self.claim.stated,
            "measured": self.measured,
            "holds_when": self.holds_when,
            "criterion": self.claim.criterion.text,
            "where": self.claim.where,
            "quote": self.claim.quote,
            "reason": self.reason,
            "excluded": [{"text": text, "evidence": evidence} for text, evidence in self.excluded],
            **({"opposed": self.opposed} if self.opposed else {}),
            **({"same_as": self.claim.same_as} if self.claim.same_as else {}),
            "value": plain(self.value),
        }


@dataclass(frozen=True)
class Row:
    """One figure or table of a paper and its claims.

    The id names the paper, which `paper` says where it does not: "D-12" is of DT-DCTCP, "NDP-P" of NDP.
    `claims` are those that the paper's claims.toml has of the row, where they are not given; its causes join
    `causes`, which need code.

    `measure(lab)` runs and returns numbers, `draw(measurement, lab)` makes the figures, the claims judge.
    `causes` explain claims that do not hold. A claim that is undecided has the row measured again with twice
    the replications, up to `budget` times those of the first measurement.

    Two fields are for the search over open parameters. `matters` names those that the row depends on
    ("table.key" of the paper's choices.toml). `probe(lab, settings)` measures the numbers of the claims at
    one point, or of those claims that are cheap enough; `settings` has a value for every name in `matters`.

    `cheap` rows are judged in every `make test`. `stated` is all claims' texts where it is not given, `view`
    another view than the simulation's, shown with the verdict: "live, scaled".
    """

    id: str
    title: str
    paper: str = ""
    stated: str = ""
    view: str = ""
    claims: tuple[Claim, ...] = field(default=(), kw_only=True, repr=False)
    measure: Callable[[Lab], Measurement] = field(kw_only=True, repr=False)
    draw: Callable[[Measurement, Lab], Sequence[Path]] | None = field(default=None, repr=False)
    causes: tuple[Cause, ...] = field(default=(), repr=False)
    budget: int = 8
    matters: tuple[str, ...] = ()
    probe: Callable[[Lab, Mapping[str, Any]], Measurement] | None = field(default=None, repr=False)
    cheap: bool = False

    def __post_init__(self) -> None:
        if not self.paper:
            prefix = self.id.partition("-")[0]
            object.__setattr__(self, "paper", PREFIXES.get(prefix, prefix.lower()))
        if not self.claims:
            # Here, because the statements are made of claims.
            from penstock_papers.ledger import selection

            known = selection.statements_of(self.paper)
            object.__setattr__(self, "claims", known.rows.get(self.id, ()))
            object.__setattr__(self, "causes", (*known.causes.get(self.id, ()), *self.causes))
        if not self.claims:
            raise ValueError(f"row {self.id}: has no claims")
        names = [claim.id for claim in self.claims]
        if len(set(names)) < len(names):
            raise ValueError(f"row {self.id}: two claims have the same id")
        unknown = {name for cause in self.causes for name in cause.of} - set(names)
        if unknown:
            raise ValueError(f"row {self.id}: a cause explains no claim of it: {', '.join(sorted(unknown))}")
        if not self.stated:
            object.__setattr__(self, "stated", "; ".join(claim.text for claim in self.claims))

    def judge(self, measurement: Measurement) -> list[Judged]:
        """Every claim's verdict and, where it does not hold, its causes; on numbers alone."""
        found = corrected([claim.judge(measurement) for claim in self.claims])
        return [one if one.verdict == CONFIRMED else self.explained(one, measurement) for one in found]

    def explained(self, judged: Judged, measurement: Measurement) -> Judged:
        """A claim that does not hold, with the causes that these numbers support."""
        if judged.verdict == UNDECIDED:
            why = judged.reason or STRADDLES
            return replace(judged, reason=why, because=((why, ""),))
        fitting = [cause for cause in self.causes if not cause.of or judged.claim.id in cause.of]
        because = tuple(
            (cause.text, cause.evidence(measurement)) for cause in fitting if cause.holds(measurement)
        )
        if not because:
            tried = ((cause.text, cause.tried(measurement)) for cause in fitting)
            excluded = tuple((text, evidence) for text, evidence in tried if evidence)
            return replace(judged, reason=UNEXPLAINED, because=((UNEXPLAINED, ""),), excluded=excluded)
        said = "; ".join(f"{text} ({evidence})" for text, evidence in because)
        return replace(judged, reason=said, because=because)


def corrected(found: Sequence[Judged]) -> list[Judged]:
    """The judgements of a row, corrected for their number by Benjamini and Hochberg's procedure (1995).

    Let m claims have intervals. Take the largest k for which at least k claims are decided with intervals of
    level k/m times 5 %. These claims are decided, the others undecided.
    """
    tests = [i for i, one in enumerate(found) if uncertain(one.value)]
    level = uncertainty().level

    def decided(k: int) -> set[int]:
        at = level * k / len(tests)
        judged = ((i, found[i].claim.criterion.judge(at_level(found[i].value, at))) for i in tests)
        return {i for i, verdict in judged if verdict != UNDECIDED}

    kept: set[int] = set()
    for k in range(len(tests), 0, -1):
        kept = decided(k)
        if len(kept) >= k:
            break
    else:
        k, kept = 1, set()
    lost = {i for i in tests if i not in kept and found[i].verdict != UNDECIDED}

    def undecided(one: Judged) -> Judged:
        """With the intervals that decide, which are wider than those that are printed."""
        wider = show(at_level(one.value, level * k / len(tests)), one.claim.unit)
        return replace(one, verdict=UNDECIDED, reason=f"{CORRECTED}: {wider}")

    return [undecided(one) if i in lost else one for i, one in enumerate(found)]


def verdict_of(judged: Sequence[Judged]) -> str:
    """The verdict of a row: `confirmed` when all claims are, `undecided` when none differs, `in part` when
    some are confirmed, otherwise `differs`.
    """
    verdicts = [one.verdict for one in judged]
    if all(v == CONFIRMED for v in verdicts):
        return CONFIRMED
    if DIFFERS not in verdicts:
        return UNDECIDED
    return IN_PART if CONFIRMED in verdicts else DIFFERS


def percent(share: float) -> str:
    """A share in whole per cent; 0% and 100% are none and all, and nothing that is nearly so."""
    text = f"{share:.0%}"
    if text == "100%" and share < 1:
        return ">99%"
    return "<1%" if text == "0%" and share > 0 else text


def show(value: Any, unit: str = "") -> str:
    """Numbers in words: an estimate with its interval, several with commas, a mapping with its names."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Estimate):
        return value.show(unit=unit)
    if value is None:
        return "none"
    if isinstance(value, int | float | np.number):
        return Estimate.exact(float(value)).show(unit=unit)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {show(item, unit)}" for name, item in value.items())
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        inner = ", ".join(show(item) for item in value)
        return f"{inner} {unit}".rstrip()
    return str(value)


def plain(value: Any) -> Any:
    """A measurement, or a part of it, fit for JSON: an estimate as `{"mean", "low", "high"}`, what is no
    finite number as text. The inverse is `from_plain`.
    """
    if isinstance(value, Estimate):
        return {name: plain(getattr(value, name)) for name in ("mean", "low", "high")}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a measurement holds numbers and texts, not {type(value).__name__}")


def from_plain(value: Any) -> Any:
    """A measurement as `plain` wrote it; arrays come back as lists."""
    if isinstance(value, Mapping):
        if set(value) == {"mean", "low", "high"}:
            mean, low, high = (float(value[name]) for name in ("mean", "low", "high"))
            return Estimate(mean, low, high)
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value
