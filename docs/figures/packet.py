"""The path of one packet: from a write through card, ports and a switch to the acknowledgement."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from penstock import figures

#: Name, what it is in the code, place and colour.
BOXES = {
    "application": ("Action::Write", (0.0, 2.0), 7),
    "sender": ("TcpStack, Sender", (2.0, 2.0), 0),
    "card": ("Nic::pull", (4.0, 2.0), 0),
    "host's port": ("Fabric::offer", (6.0, 2.0), 1),
    "switch": ("Forwarding::next", (6.0, 0.0), 2),
    "switch's port": ("Fabric::offer", (4.0, 0.0), 1),
    "receiver": ("TcpStack, Receiver", (2.0, 0.0), 0),
    "results": ("News::Delivered", (0.0, 0.0), 7),
}
#: From, to, what passes.
ARROWS = (
    ("application", "sender", "accept"),
    ("sender", "card", "segment"),
    ("card", "host's port", "cell"),
    ("host's port", "switch", "link: one event"),
    ("switch", "switch's port", "next hop"),
    ("switch's port", "receiver", "link: one event"),
    ("receiver", "results", "delivered"),
)
WIDTH, HEIGHT = 1.45, 0.75


def draw() -> Figure:
    """Boxes and arrows; the ACK returns the same way."""
    with figures.style():
        figure, (ax,) = figures.new(width=8.2, height=3.2)
        for name, (code, (x, y), colour) in BOXES.items():
            box = FancyBboxPatch(
                (x - WIDTH / 2, y - HEIGHT / 2),
                WIDTH,
                HEIGHT,
                boxstyle="round,pad=0.02",
                facecolor="white",
                edgecolor=figures.PALETTE[colour],
                linewidth=1.6,
            )
            ax.add_patch(box)
            ax.text(x, y + 0.13, name, ha="center", va="center", fontsize=9)
            ax.text(x, y - 0.17, code, ha="center", va="center", fontsize=6.8, family="monospace")
        for a, b, text in ARROWS:
            (x, y), (u, v) = BOXES[a][1], BOXES[b][1]
            dx, dy = (u > x) - (u < x), (v > y) - (v < y)
            start = (x + dx * WIDTH / 2, y + dy * HEIGHT / 2)
            end = (u - dx * WIDTH / 2, v - dy * HEIGHT / 2)
            ax.add_patch(
                FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color=figures.INK, shrinkA=3)
            )
            at = ((x + u) / 2 + (0 if dx else 0.1), (y + v) / 2 + (0.5 if dx else 0))
            ax.text(*at, text, fontsize=7.5, ha="center" if dx else "left", va="center")
        ack = FancyArrowPatch(
            (2.3, 0.42),
            (2.3, 1.58),
            arrowstyle="-|>",
            mutation_scale=12,
            color=figures.PALETTE[0],
            linestyle="--",
        )
        ax.add_patch(ack)
        ax.text(2.4, 1.0, "ACK, by the same steps; ends as News::Acked", fontsize=7.5, va="center")
        ax.set(xlim=(-0.85, 7.2), ylim=(-0.5, 2.75))
        ax.axis("off")
    return figure
