"""Configuration of the documentation: `make docs` builds it, offline, warnings being errors."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import openset

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

from api_pages import estimator_members, public_modules  # noqa: E402

project = "openset"
author = "openset developers"
copyright = "openset developers"
version = release = openset.__version__

extensions = [
    "api_pages",  # before autosummary, which reads what it writes
    "command_reference",
    "method_table",
    "method_pictures",
    "result_pages",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated", "results", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
nitpicky = False
suppress_warnings = [
    "config.cache",  # the order of the gallery is a function, which cannot be pickled
]

# Documents
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = [f"api/{module}.rst" for module in public_modules()]
autosummary_context = {"estimator_members": estimator_members()}
autodoc_typehints = "none"  # numpydoc's sections say it, with shapes
numpydoc_show_class_members = False
numpydoc_validation_checks = set()  # tests/test_docs.py does it, without a build

# MathJax in one file, so that formulas are readable without a network.
_mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
mathjax_path = "tex-svg.js"

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"^_",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "doc_module": ("openset",),
    "backreferences_dir": "auto_examples/backreferences",
}

# Pages
html_theme = "pydata_sphinx_theme"
html_title = "openset"
html_static_path = ["_static", str(_mathjax / "static" / "mathjax" / "tex-svg.js")]
html_css_files = ["openset.css"]
html_js_files = ["copy.js"]
html_show_sourcelink = False
html_copy_source = False
_urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
html_theme_options = {
    "external_links": [{"name": name, "url": url} for name, url in _urls.items()],
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "logo": {"text": "openset"},
}
html_sidebars = {"index": [], "search": []}
