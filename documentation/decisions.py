"""List of the decisions in docs/adr/, by their titles."""

from pathlib import Path

from documentation.markdown import GENERATED

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "adr"

_HEAD = f"""{GENERATED}

# Decisions

Why things are as they are: a page for each decision that a reader could question.

"""


def page() -> str:
    """Return the page."""
    found = sorted(FOLDER.glob("[0-9]*.md"))
    return _HEAD + "".join(f"- [{_title(path)}]({path.name})\n" for path in found)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
