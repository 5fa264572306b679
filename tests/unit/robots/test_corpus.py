"""The robots.txt files of 4,231 real sites, held against a second reader of RFC 9309's groups.

They are no part of the project, see tests/support/corpus.py. Without them these tests are skipped.
"""

import re

import pytest
from protego import Protego

from crawler.robots.rules import RobotsRules, text_of
from tests.support.corpus import robots_files

HOST = "http://h.test"
STRANGER = "stranger-to-all"
# Also without a colon, and misspelt, as the world has them.
_RECORD = re.compile(
    r"\s*(?:(user[- ]?agent)|(allow)|diss?all?ow|diasllow|disallaw)(?:\s*:|\s|$)([^#]*)",
    re.IGNORECASE,
)
# Of a file; the most have fewer.
_AGENTS, _PROBES = 8, 12


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, bytes]]:
    return robots_files()


def groups(text: str) -> list[tuple[list[str], list[str]]]:
    """Agents and rules of each group: only a rule ends its names."""
    found: list[tuple[list[str], list[str]]] = []
    for record in filter(None, map(_RECORD.match, text.split("\n"))):
        value = record[3].strip()
        if record[1]:
            if not found or found[-1][1]:
                found.append(([], []))
            found[-1][0].append(value)
        elif found:
            found[-1][1].append(f"{'Allow' if record[2] else 'Disallow'}: {value}")
    return found


def is_named(agent: str, value: str) -> bool:
    return agent == value.lower() or agent == (re.match(r"[a-z_-]*", value.lower()) or [""])[0]


def test_every_file_binds_whom_the_standard_says(corpus: list[tuple[str, bytes]]) -> None:
    wrong = []
    for name, body in corpus:
        text = text_of(body)
        read = groups(text)
        named = {
            token[0].lower()
            for agents, _ in read
            for value in agents
            if (token := re.fullmatch(r"[A-Za-z_-]+", value))
        }
        paths = dict.fromkeys(
            "/" + rule.partition(": ")[2].replace("*", "x").rstrip("$").lstrip("/")
            for _, rules in read
            for rule in rules
        )
        for agent in [STRANGER, *sorted(named)[:_AGENTS]]:
            ours = [rules for agents, rules in read if any(is_named(agent, a) for a in agents)]
            for_all = [rules for agents, rules in read if "*" in agents]
            rules = [rule for part in ours or for_all for rule in part]
            expected = Protego.parse("\n".join(["User-agent: *", *rules]))
            found = RobotsRules(body, agent)
            for path in ["/", *list(paths)[:_PROBES]]:
                if found.allows(HOST + path) != expected.can_fetch(HOST + path, "*"):
                    wrong.append((name, agent, path))
                    break
    assert wrong == []
    assert len(corpus) == 4231


def test_delays_and_sitemaps_are_those_of_the_parser(corpus: list[tuple[str, bytes]]) -> None:
    wrong = []
    for name, body in corpus:
        found, parser = RobotsRules(body, STRANGER), Protego.parse(text_of(body))
        sitemaps = list(dict.fromkeys(parser.sitemaps))[: len(found.sitemaps) or None]
        expected = (parser.crawl_delay(STRANGER) or 0.0, sitemaps)
        if (found.crawl_delay_s, found.sitemaps) != expected:
            wrong.append((name, found.crawl_delay_s, found.sitemaps, expected))
    assert wrong == []
