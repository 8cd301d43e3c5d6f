"""Which rows there are, and which of them are meant.

Each paper's package under `penstock_papers.experiments` has a module `rows` with a list `ROWS`. Rows in a
module's `LIVE_ROWS` judge the same statements with kernel sockets (`penstock.live`). They take part only when
asked for, and are `not run` where live runs are impossible or none passed the gate.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from penstock import scenario as scenarios
from penstock_papers.ledger import statements
from penstock_papers.ledger.claims import PREFIXES, Row
from penstock_papers.ledger.criteria import Criterion

# Paper key -> package under penstock_papers.experiments, in the order of the report.
PAPERS = {
    "incast": "incast",
    "dt-dctcp": "dt_dctcp",
    "sdc-racs": "sdc_racs",
    "piqi-rcp": "piqi_rcp",
    "cbc": "cbc",
    "dcqcn": "dcqcn",
    "timely": "timely",
    "hpcc": "hpcc",
    "swift": "swift",
    "ndp": "ndp",
    "reps": "reps",
    "homa": "homa",
}

# Papers on lossless Ethernet and RDMA, whose statements are from memory: counted apart from the five above.
PART_TWO = ("dcqcn", "timely", "hpcc", "swift")
# Papers on sprayed and receiver-driven transports, apart, too: two from memory, and the data of Homa's.
PART_THREE = ("ndp", "reps", "homa")
# Both are reproductions of headline statements and of published data: they stand apart.
REPRODUCED = (*PART_TWO, *PART_THREE)
# Those whose texts were not at hand.
REMEMBERED = (*PART_TWO, "ndp", "reps")

# Ending of a live row's id: that of the row it is the live variant of, and this.
LIVE = "-live"


def folder(paper: str) -> Path:
    """The folder of a paper's package: its choices, pinned verdicts and search results."""
    return Path(__file__).parents[1] / "experiments" / PAPERS[paper]


def statements_of(paper: str) -> statements.Document:
    """The statements of a paper and the claims of its rows. Raises ValueError where they cannot be read."""
    if paper not in PAPERS:
        return statements.Document((), {}, {})
    return statements.load(f"penstock_papers.experiments.{PAPERS[paper]}", folder(paper))


def claim_criterion(claim: str) -> Criterion:
    """The criterion of a claim ("I-4.4/orders"), for causes: where one says that the statement holds it is
    judged as the claim is.
    """
    row, _, own = claim.partition("/")
    prefix = row.partition("-")[0]
    known = statements_of(PREFIXES.get(prefix, prefix.lower())).rows.get(row, ())
    found = next((one.criterion for one in known if one.id == own), None)
    if found is None:
        raise ValueError(f"{claim!r}: no paper has such a claim")
    return found


def rows(*, live: bool = False) -> list[Row]:
    """Every row of every paper, papers in the order of `PAPERS`, rows in the order of their list; with `live`
    each paper's live rows after its others.
    """
    found: list[Row] = []
    for paper, package in PAPERS.items():
        name = f"penstock_papers.experiments.{package}"
        if importlib.util.find_spec(name) is None or importlib.util.find_spec(f"{name}.rows") is None:
            continue
        module = importlib.import_module(f"{name}.rows")
        for row in [*module.ROWS, *(getattr(module, "LIVE_ROWS", ()) if live else ())]:
            if row.paper != paper:
                raise ValueError(f"row {row.id} says paper {row.paper!r} but lives with {paper!r}")
            found.append(row)
    repeated = {row.id for row in found if sum(other.id == row.id for other in found) > 1}
    if repeated:
        raise ValueError(f"rows with the same id: {', '.join(sorted(repeated))}")
    return found


def select(ids: Sequence[str] = (), papers: Sequence[str] = (), *, live: bool = False) -> list[Row]:
    """The rows with these ids and of these papers; all rows when both are empty.

    Live rows are among them when `live` is set (of an id D-14, its live variant D-14-live) or when their own
    id is given. Raises ScenarioError naming an id or paper that does not exist.
    """
    everything = rows(live=True)
    known = {row.id: row for row in everything}
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise scenarios.error("ID", name, f"no such row{hint} (`penstock reproduce --list` names all)")
    for paper in papers:
        if paper not in PAPERS:
            raise scenarios.error("--paper", paper, f"must be one of {', '.join(PAPERS)}")

    def wanted(row: Row) -> bool:
        if row.id in ids:
            return True
        if row.view and not live:
            return False
        everywhere = not ids and not papers
        return everywhere or row.paper in papers or (bool(row.view) and row.id.removesuffix(LIVE) in ids)

    return [row for row in everything if wanted(row)]


def lacks() -> str:
    """What this machine lacks for the ledger's live rows, in one line; "" = nothing."""
    from penstock import live

    # Their protocols are congestion controls of our own, which are loaded into the kernel.
    needed = [item for item in live.doctor() if item["required"] or item["what"].startswith("own congestion")]
    lines = [f"{i['what']}: {i['detail']} ({i['remedy']})" for i in needed if not i["found"]]
    return "; ".join(lines)
