"""Hook of mkdocs: show links to files outside docs/ as text, because the site does not contain those files."""

import logging
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.hooks")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links to files of the repository by their text; warn if such a file is missing."""
    docs = Path(config["docs_dir"]).resolve()

    def as_text(link: re.Match[str]) -> str:
        target = (docs / page.file.src_uri).parent.joinpath(link[2]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        if not target.exists():
            _log.warning("Doc file '%s' contains a link '%s', but the file does not exist.", page.file.src_uri, link[2])
        return link[1]

    return _LINK.sub(as_text, markdown)
