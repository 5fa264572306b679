"""`python -m documentation`: write the generated pages; with --check, name those to be written."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from documentation import api, commands, decisions, settings

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "reference/settings.md": settings.page,
    "reference/commands.md": commands.page,
    "reference/api.md": api.page,
    "adr/README.md": decisions.page,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m documentation", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one is old")
    is_check = parser.parse_args().check
    old = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(name)
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"docs/{name}")
    if is_check and old:
        print(f"Not what the code says: {', '.join(old)}. Run `make reference`.", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
