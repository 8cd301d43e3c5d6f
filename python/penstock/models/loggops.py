"""LogGOPS: when the ranks of a GOAL schedule are finished, in a network that is a latency, a gap and a rate.

Source: Hoefler, Schneider and Lumsdaine, LogGOPSim, HPDC 2010; its conventions are in the engine's `loggops`,
which is used here so that a schedule is read as the simulator reads it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock import _engine


def finish_times(
    schedule: str | Path, *, latency: int, overhead: int, gap: int, per_byte: int
) -> NDArray[np.uint64]:
    """Finish time of every rank (ranks,), in the unit of the parameters: a rank's last end of a send, receive
    or computation on a processor of its own.

    `schedule` is the path of a GOAL file. `latency` is LogGOPS's L, `overhead` o, `gap` g, `per_byte` G, in
    whole numbers of one unit, that of the file's `calc`. Messages are eager. Raises ScenarioError for what
    is no schedule, by line.
    """
    text = Path(schedule).read_text(encoding="utf-8")
    return np.array(_engine.loggops(text, latency, overhead, gap, per_byte), dtype=np.uint64)
