"""Every variety of robots.txt that the web serves, each with what it must mean to a crawler.

The expectations are written by hand, path by path, and no robots parser is used: the truth stays
independent of the crawler that is judged by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Access = Literal["allow", "deny", "may"]
HUGE_BYTES: Final = 600 * 1024


@dataclass(frozen=True, slots=True)
class RobotsKind:
    """One robots.txt: how it is served, and what it means.

    `probes` maps a path to the agents it is denied to (empty: allowed to all), and `parts` does so
    for parts of pages, which nothing links to. Agents without a group of their own are "*".
    `access` is the rule for all other paths; "may" marks answers on which good crawlers differ.
    """

    name: str
    body: bytes = b""
    status: int = 200
    content_type: str = "text/plain"
    redirect: str = ""
    delay_s: float = 0.0
    fault: str = ""
    fails: int | None = None
    probes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    access: Access = "allow"
    denied_agents: tuple[str, ...] = ()
    crawl_delays_s: Mapping[str, float] = field(default_factory=dict)

    def group(self, agent: str) -> str:
        """Return the group that speaks to the product token `agent`."""
        return agent.lower() if agent.lower() in self.agents else "*"

    def decide(self, path: str, agent: str) -> Access:
        """Say whether `agent` may fetch `path`, from the table."""
        group = self.group(agent)
        if self.access != "allow":
            return self.access
        denied = self.probes.get(path) or self.parts.get(path, ())
        if group in self.denied_agents or group in denied:
            return "deny"
        return "allow"

    def crawl_delay_s(self, agent: str) -> float:
        """Return the crawl-delay due from `agent`, 0 if none is asked for."""
        return self.crawl_delays_s.get(self.group(agent), 0.0)


_DENY: Final = ("*",)
_PRIVATE: Final = {"/private/a": _DENY, "/private/deep/b": _DENY, "/public/a": ()}
_PRIVATE_RULES: Final = b"User-agent: *\nDisallow: /private/\n"

ALLOW_ALL: Final = RobotsKind("allow_all", b"User-agent: *\nDisallow:\n")

SHARES_SCRIPTS: Final = RobotsKind(
    "shares_scripts",
    b"User-agent: *\nDisallow: /shared/closed/\n",
    parts={"/shared/app.js": (), "/shared/closed/widget.js": _DENY},
)
CLOSES_API: Final = RobotsKind(
    "closes_api",
    b"User-agent: *\nDisallow: /closed-api\n",
    parts={"/closed/1": (), "/closed-api?path=%2Fclosed%2F1": _DENY},
)

DEMO_KINDS: Final = (
    RobotsKind("missing_404", b"not found", status=404),
    RobotsKind("forbidden_403", b"forbidden", status=403),
    RobotsKind(
        "disallow_prefix",
        b"User-agent: *\nDisallow: /private/\nDisallow: /tmp\n",
        probes={**_PRIVATE, "/tmpfile": _DENY, "/Private/a": ()},
    ),
    RobotsKind(
        "wildcards",
        b"User-agent: *\nDisallow: /*.cgi$\nDisallow: /*/draft/\nDisallow: /find*q=\n",
        probes={
            "/bin/a.cgi": _DENY,
            "/bin/a.cgi?x=1": (),
            "/bin/b.cgix": (),
            "/x/draft/1": _DENY,
            "/draft/1": (),
            "/find/all?q=1": _DENY,
            "/find/all?p=1": (),
        },
    ),
    RobotsKind(
        "longest_match",
        b"User-agent: *\nAllow: /shop/open/\nDisallow: /shop\nDisallow: /shop/open/secret\n"
        b"Disallow: /tie\nAllow: /tie\n",
        probes={
            "/shop/cart": _DENY,
            "/shop/open/1": (),
            "/shop/open/secret/1": _DENY,
            "/tie/1": (),
        },
    ),
    RobotsKind(
        "crawl_delay",
        b"User-agent: *\nCrawl-delay: 0.4\nDisallow: /private/\n",
        probes=_PRIVATE,
        crawl_delays_s={"*": 0.4},
    ),
    RobotsKind(
        "agent_groups",
        b"User-agent: otherbot\nDisallow: /\n\nUser-agent: crawler\nCrawl-delay: 0.2\n"
        b"Disallow: /crawler-only/\n\nUser-agent: *\nDisallow: /star-only/\n",
        probes={"/crawler-only/a": ("crawler",), "/star-only/a": _DENY},
        agents=("crawler", "otherbot"),
        denied_agents=("otherbot",),
        crawl_delays_s={"crawler": 0.2},
    ),
    RobotsKind(
        "split_groups",
        b"User-agent: otherbot\nUser-agent: Crawler\nDisallow: /first/\n\n"
        b"User-agent: *\nDisallow: /star-only/\n\nUser-agent: crawler\nDisallow: /second/\n",
        probes={
            "/first/a": ("crawler", "otherbot"),
            "/second/a": ("crawler",),
            "/star-only/a": _DENY,
        },
        agents=("crawler", "otherbot"),
    ),
    RobotsKind(
        "redirect_same_host",
        _PRIVATE_RULES,
        status=301,
        redirect="/rules/robots.txt",
        probes=_PRIVATE,
    ),
    RobotsKind(
        "redirect_cross_host",
        _PRIVATE_RULES,
        status=302,
        redirect="http://rules-{n}.test/robots.txt",
        probes=_PRIVATE,
    ),
    RobotsKind(
        "very_long",
        b"User-agent: *\nDisallow: /private/\n"
        + b"# all work and no play makes a long robots.txt\n" * (HUGE_BYTES // 47)
        + b"Disallow: /after-the-limit/\n",
        probes=_PRIVATE,
    ),
    RobotsKind("empty"),
    RobotsKind(
        "html",
        b"<!doctype html><html><head><title>Home</title></head><body><p>Welcome</p></body></html>",
        content_type="text/html",
    ),
    RobotsKind("bom", b"\xef\xbb\xbf" + _PRIVATE_RULES, probes=_PRIVATE),
    RobotsKind(
        "mixed_line_ends",
        b"User-agent: *\rDisallow: /private/\r\nDisallow: /tmp\n\r\n",
        probes={**_PRIVATE, "/tmpfile": _DENY},
    ),
    RobotsKind(
        "untidy",
        b"# hello\nthis is no directive\nNoindex: /public/\nUSER-AGENT:   *   # everybody\n"
        b"   dISALLOW :/private/   # keep out\nDisallow\n",
        probes=_PRIVATE,
    ),
    RobotsKind(
        "percent_encoded",
        b"User-agent: *\nDisallow: /caf%C3%A9-private/\nDisallow: /\xc3\xbcber-private/\n",
        probes={
            "/caf%C3%A9-private/a": _DENY,
            "/%C3%BCber-private/a": _DENY,
            "/cafe-private/a": (),
        },
    ),
    RobotsKind("disallow_all", b"User-agent: *\nDisallow: /\n", denied_agents=("*",)),
)

FULL_KINDS: Final = (
    RobotsKind("error_500", b"oops", status=500, access="deny"),
    RobotsKind("error_503", b"later", status=503, access="deny"),
    RobotsKind("timeout", fault="timeout", access="deny"),
    RobotsKind("reset", fault="reset", access="deny"),
    RobotsKind("recovering_503", _PRIVATE_RULES, status=503, fails=1, access="may"),
    RobotsKind("too_many_429", b"slow down", status=429, access="may"),
    RobotsKind("redirect_loop", status=302, redirect="/robots.txt", access="may"),
    RobotsKind("slow", _PRIVATE_RULES, delay_s=2.0, probes=_PRIVATE),
    RobotsKind("long_delay", b"User-agent: *\nCrawl-delay: 5\n", crawl_delays_s={"*": 5.0}),
)
