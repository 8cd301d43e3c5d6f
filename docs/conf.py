"""Sphinx's settings for the site. `tools/site` lays the pages out and calls Sphinx; nothing here reaches for the network."""

from typing import Any

import latex2mathml.converter
import penstock

project = "penstock"
author = "the authors of penstock"
copyright = author
release = version = penstock.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
myst_dmath_allow_labels = False
exclude_patterns = ["files", "figures", "_still.png"]
source_suffix = {".md": "markdown"}

html_theme = "furo"
html_title = "penstock"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _inline(writer: Any, node: Any) -> None:
    writer.body.append(latex2mathml.converter.convert(node.astext()))
    raise _skip()


def _display(writer: Any, node: Any) -> None:
    converted = latex2mathml.converter.convert(node.astext(), display="block")
    writer.body.append(f'<div class="equation">{converted}</div>\n')
    raise _skip()


def _skip() -> Exception:
    from docutils import nodes

    return nodes.SkipNode()


def setup(app: Any) -> None:
    """Equations as MathML, which browsers draw by themselves: MathJax would be fetched."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_display, None))
