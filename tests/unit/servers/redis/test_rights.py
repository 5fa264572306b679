"""The user that docs/security.md describes has all commands of the sources, and no others."""

import ast
import re
from pathlib import Path

import pytest
import redis.asyncio

import crawler
from tests.support.rights import redis_rules

# Methods of redis-py that are not named as their commands.
COMMANDS = {
    "delete": "del",
    "scan_iter": "scan",
    "hscan_iter": "hscan",
    "config_get": "config|get",
    "object": "object|encoding",
    "pipeline": "multi",
}
# Methods that send nothing of their own.
OTHERS = {"aclose", "execute_command", "execute", "get_primaries", "get_node_from_key"}
# Commands of redis-py itself: for a database, its name, and the end of a transaction.
OF_THE_CLIENT = {"select", "client|setinfo", "exec"}
KNOWN = {name for name in dir(redis.asyncio.Redis) if not name.startswith("_")}
SOURCES = Path(crawler.__file__).parent


def commands_of_scripts(text: str) -> set[str]:
    calls = re.findall(r"redis\.p?call\(([^,)]*)", text)
    return {name.lower() for call in calls for name in re.findall(r"'([A-Z_]+)'", call)}


def commands_of_python(text: str) -> set[str]:
    """Commands of methods of `redis` and `pipeline`, and tuples that begin with one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, ast.unparse(node.func.value)
            if name == "execute_command" and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value).lower())
            elif owner.rpartition(".")[2].lstrip("_") in ("redis", "pipeline"):
                found |= {COMMANDS.get(name, name)} if name in KNOWN - OTHERS else set()
        elif isinstance(node, ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
            first = str(node.elts[0].value)
            found |= {first.lower()} if first.isupper() and first.lower() in KNOWN else set()
    return found


@pytest.fixture(scope="module")
def used() -> set[str]:
    found = set(OF_THE_CLIENT)
    for path in SOURCES.rglob("*.lua"):
        found |= commands_of_scripts(path.read_text("utf-8"))
    for path in SOURCES.rglob("*.py"):
        text = path.read_text("utf-8")
        found |= commands_of_scripts(text) | commands_of_python(text)
    return found


def test_the_documented_user_may_send_each_command_of_the_sources_and_no_other(
    used: set[str],
) -> None:
    allowed = {rule[1:] for rule in redis_rules() if rule.startswith("+")}
    assert allowed == used


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ("await self._redis.hstrlen(key, 'a')", "hstrlen"),
        ("pipeline.execute_command('GETEX', key)", "getex"),
        ("ask(('SMOVE', key, other, element))", "smove"),
        ("async for name in redis.scan_iter(): ...", "scan"),
        ("redis.config_get('maxmemory')", "config|get"),
    ],
)
def test_a_new_command_in_python_is_found(source: str, command: str) -> None:
    assert command in commands_of_python(source)


def test_a_new_command_in_a_script_is_found() -> None:
    assert commands_of_scripts("local n = redis.pcall('SORT_RO', KEYS[1])") == {"sort_ro"}
