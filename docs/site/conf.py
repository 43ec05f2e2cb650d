"""How Sphinx builds the site; `build.py` calls it."""

import builtins
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(SITE), str(ROOT)]

from docstrings import as_rst  # noqa: E402  (it stands beside this file)

project = "tinytensor"
author = "The tinytensor authors"
copyright = author
release = re.search(r'__version__ = "(.*)"', (ROOT / "tinytensor" / "__init__.py").read_text(encoding="utf-8"))[1]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "formulas",
]
exclude_patterns = ["notebooks/*"]  # to download, and no pages
nb_execution_mode = "off"  # notebooks.py has executed them
nb_merge_streams = True  # of what a cell prints, one block
nb_mime_priority_overrides = [("html", "image/svg+xml", 0)]
myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 90
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Shapes"]
suppress_warnings = ["ref.python"]  # an attribute that several classes have is a link to one of them
add_module_names = False
python_use_unqualified_type_names = True

copybutton_exclude = ".linenos, .gp"
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "tinytensor"
html_static_path = [str(SITE / "static")]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"sidebar_hide_name": False}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app):
    app.connect("doctree-read", without_links_of_builtins)
    app.connect("autodoc-process-docstring", docstring_as_rst, priority=400)  # before napoleon reads it


def without_links_of_builtins(app, doctree):
    """`bool` in a signature is Python's, and not `tt.bool`."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("reftype") == "class" and link["reftarget"] in vars(builtins):
            link.replace_self(nodes.Text(link["reftarget"]))


def docstring_as_rst(app, what, name, thing, options, lines):
    """Docstrings are plain text: code is what is indented under a colon, or stands between single backticks."""
    lines[:] = as_rst(lines)


def linkcode_resolve(domain, info):
    from api import line_of

    return line_of(info["module"], info["fullname"]) if info["module"] else None
