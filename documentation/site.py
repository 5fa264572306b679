"""Hooks of MkDocs, which it calls by their names.

Pages with a diagram get Mermaid from the site itself, not from a CDN. A link to a file of the
repository that is no page, which works on GitHub, becomes its text.
"""

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

_SCRIPT = "assets/javascripts/mermaid.js"
_BUNDLE = re.compile(r'<script src="[^"]*assets/javascripts/bundle\.')
_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*)\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Unlink files outside of the docs, if they exist; MkDocs complains of those that do not."""
    docs = Path(config.docs_dir)

    def unlinked(link: re.Match[str]) -> str:
        target = (docs / page.file.src_uri).parent.joinpath(link[2]).resolve()
        is_known = target.is_relative_to(docs.parent) and not target.is_relative_to(docs)
        return link[1] if is_known and target.exists() else link[0]

    return _LINK.sub(unlinked, markdown)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Load Mermaid before the theme's script, which would else ask another site for it."""
    if 'class="mermaid"' not in output:
        return output
    url = get_relative_url(_SCRIPT, page.url)
    return _BUNDLE.sub(rf'<script src="{url}"></script>\g<0>', output, count=1)


def on_post_build(config: MkDocsConfig) -> None:
    """Copy Mermaid from its wheel."""
    with as_file(files("mermaidx") / "assets" / "mermaid.js") as script:
        shutil.copyfile(script, Path(config.site_dir) / _SCRIPT)
