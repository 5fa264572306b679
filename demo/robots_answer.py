"""Serve robots.txt and the files that it redirects to."""

import re
from typing import Final

from demo.answer import Answer, whole
from demo.features.sitemaps import ROOT
from demo.node import Behaviour
from demo.profile import Profile
from demo.web import Web

PATH: Final = "/robots.txt"
MOVED: Final = "/rules/robots.txt"
_RULES_HOST: Final = re.compile(r"rules-(\d{1,9})\.test", re.ASCII)


def rules_host(number: int) -> str:
    """Return the host that holds nothing but the robots.txt of host `number`."""
    return f"rules-{number}.test"


def redirected_to(profile: Profile) -> str:
    """Return the URL that the host's robots.txt redirects to, or an empty string."""
    target = profile.robots.redirect.format(n=profile.number)
    return f"http://{profile.host}{target}" if target.startswith("/") else target


def _text(profile: Profile, status: int) -> Answer:
    body = profile.robots.body
    if "sitemaps" in profile.features:
        body += f"Sitemap: http://{profile.host}{ROOT}\n".encode()
    return whole(status, body, {"Content-Type": profile.robots.content_type})


def robots_answer(web: Web, host: str, target: str, hits: int) -> Answer | None:
    """Answer a request for robots rules, or return None if it is for something else.

    `hits` is how often this URL was asked for before.
    """
    elsewhere = _RULES_HOST.fullmatch(host)
    if elsewhere is not None and target == PATH:
        number = int(elsewhere[1])
        if number < web.options.hosts and web.profile(number).robots.name == "redirect_cross_host":
            return _text(web.profile(number), 200)
        return None
    known = web.host_number(host)
    if known is None or target not in {PATH, MOVED}:
        return None
    profile = web.profile(known)
    kind = profile.robots
    if target == MOVED:
        return _text(profile, 200) if kind.redirect == MOVED else None
    if kind.fault:
        return Answer(0, behaviour=Behaviour(kind.fault))
    if kind.redirect:
        return whole(kind.status, b"", {"Location": redirected_to(profile)})
    if kind.fails is not None and hits >= kind.fails:
        return _text(profile, 200)
    answer = _text(profile, kind.status)
    if not kind.delay_s:
        return answer
    return Answer(answer.status, answer.wire, answer.head_bytes, delay_s=kind.delay_s)
