"""Rights that docs/security.md gives to the crawler's users of Redis, MongoDB and PostgreSQL."""

import json
import re
import shlex
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def redis_rules() -> list[str]:
    """Return the rules of the user in Redis: patterns of keys, and commands."""
    found = re.search(r"ACL SETUSER crawler (.*?)\n(?!    )", PAGE.read_text("utf-8"), re.DOTALL)
    assert found, PAGE
    return [rule for rule in shlex.split(found[1]) if rule[0] in "~+"]


def redis_user(password: str) -> str:
    """Return the user as a line of an ACL file."""
    return " ".join(["user crawler on", f">{password}", *redis_rules()])


def mongo_actions() -> list[str]:
    """Return the actions of the role in MongoDB."""
    found = re.search(r"actions: (\[.*?\])", PAGE.read_text("utf-8"), re.DOTALL)
    assert found, PAGE
    actions: list[str] = json.loads(found[1])
    return actions


def postgres_grants(user: str, database: str) -> str:
    """Return the statements that give a user its rights in PostgreSQL."""
    found = re.search(r"```sql\n(GRANT .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found, PAGE
    return (
        found[1].replace("DATABASE pages", f"DATABASE {database}").replace("crawler;", f"{user};")
    )
