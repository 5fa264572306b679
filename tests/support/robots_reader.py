"""A reader of robots.txt after RFC 9309 that shares nothing with the crawler's, to judge it by.

It knows what files of tests have: groups, Allow and Disallow with * and $. Escapes are compared as
they stand.
"""

import re


def _pattern(rule: str) -> re.Pattern[str]:
    ends = rule.endswith("$")
    parts = (rule[:-1] if ends else rule).split("*")
    return re.compile(".*".join(map(re.escape, parts)) + ("$" if ends else ""), re.DOTALL)


class RobotsReader:
    """The rules of one file for one product token."""

    def __init__(self, text: str, token: str) -> None:
        groups: list[tuple[set[str], list[tuple[str, bool]]]] = []
        for line in text.splitlines():
            name, colon, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            name = name.lower()
            if not colon:
                continue
            if name == "user-agent":
                # 2.1: a group begins with one or more such lines; only rules end them. 2.2.4: other
                # records are no part of groups.
                if not groups or groups[-1][1]:
                    groups.append((set(), []))
                groups[-1][0].add(value.lower())
            elif name in ("allow", "disallow") and groups:
                groups[-1][1].append((value, name == "allow"))
        for wanted in (token.lower(), "*"):
            # 2.2.1: groups of the same name are one; that for everybody is for those without one.
            mine = [rules for names, rules in groups if wanted in names]
            if mine:
                break
        self._rules = [rule for rules in mine for rule in rules if rule[0]]

    def allows(self, target: str) -> bool:
        """May this path with its query be fetched? 2.2.2: the longest rule counts, then Allow."""
        matching = [
            (len(rule), is_allowed)
            for rule, is_allowed in self._rules
            if _pattern(rule).match(target)
        ]
        return max(matching, default=(0, True))[1]
