"""Run a storm and audit it. Exit code 0: nothing found; 1: findings; 2: a mistake."""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random

from chaos.audit import audit
from chaos.faults import kinds
from chaos.run import error, load, run, usable
from chaos.schedule import draw, read
from chaos.storm import SINKS, Plan
from demo.web import WebOptions

# The crawl must be longer than the storm, on a quick machine too.
_URLS_PER_MINUTE = 2_550
_PAGES = 42
_FAULTS_PER_MINUTE = 27.0
# Of a web with pages for browsers, which take a second each.
_RENDERED_URLS_PER_MINUTE, _RENDERED_PAGES = 80, 24
# A storm whose crawl is as small as this has few hosts, each with as many pages.
_HOSTS_MIN = 24


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults come")
    parser.add_argument("--seed", type=int, default=1, help="of the web, and of all faults")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="replay a log of faults")
    parser.add_argument("--rate", type=float, default=_FAULTS_PER_MINUTE, help="faults a minute")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="kinds with a word")
    parser.add_argument("--crawlers", type=int, default=0, help="0: 2 to 6, by the seed")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=list(SINKS))
    parser.add_argument("--urls", type=int, default=0, help="size of the web; 0: by the minutes")
    parser.add_argument("--folder", type=Path, help="for logs; one of its own otherwise")
    parser.add_argument("--renders", action="store_true", help="a small web that needs browsers")
    parser.add_argument("--audit", type=Path, metavar="FOLDER", help="audit a storm once more")
    parser.add_argument("--list", action="store_true", help="print all kinds of faults")
    return parser


def _stop(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run a storm, and print its report."""
    arguments = _parser().parse_args(argv)
    found = kinds()
    if arguments.list:
        for kind in found.values():
            print(f"{kind.name:40} {kind.missing() or kind.place}")
        return 0
    if arguments.audit:
        report = audit(load(arguments.audit), found)
        print("\n".join(report.lines()))
        return 0 if report.ok else 1
    chance = Random(arguments.seed)
    renders = arguments.renders
    pace = _RENDERED_URLS_PER_MINUTE if renders else _URLS_PER_MINUTE
    pages = _RENDERED_PAGES if renders else _PAGES
    hosts = max(_HOSTS_MIN, (arguments.urls or int(arguments.minutes * pace)) // pages)
    plan = Plan(
        seed=arguments.seed,
        web=WebOptions(hosts, pages, arguments.seed, "browser" if renders else "demo"),
        crawlers=arguments.crawlers or chance.randint(2, 6),
        sinks=tuple(arguments.sinks),
        spool=chance.random() < 0.3,
        renders=renders,
        # Far more than it takes: a busy machine is slow, and a crawl that stands still is ended.
        end_s=max(1800.0, arguments.minutes * 180),
    )
    left, missing = usable(found, plan)
    length_s = arguments.minutes * 60
    if arguments.faults:
        try:
            lines = arguments.faults.read_text(encoding="utf-8").splitlines()
            schedule = sorted((each.planned for each in read(lines)), key=lambda each: each.at_s)
        except (OSError, ValueError) as problem:
            error(f"--faults {arguments.faults}: {problem}")
            return 2
        length_s = max([length_s, *(each.at_s for each in schedule)])
    else:
        words = [word.lower() for word in arguments.only]
        chosen = left
        if words:
            # Those that are asked for, also if they are not drawn otherwise.
            asked = [kind for kind in left if any(word in kind.name for word in words)]
            chosen = [replace(kind, weight=kind.weight or 1.0) for kind in asked]
        count = round(arguments.minutes * arguments.rate)
        schedule = draw(arguments.seed, chosen, length_s=length_s, count=count)
    for line in missing:
        print(line)
    folder = arguments.folder
    if folder is None:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        folder = Path("storms") / f"{stamp}-seed{arguments.seed}"
    # All servers and crawlers end with the storm, also in the background of a shell without jobs.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        report = run(plan, schedule, folder.resolve(), length_s=length_s)
    except KeyboardInterrupt:
        error("stopped, and not audited")
        return 130
    print("\n".join(report.lines()))
    print(f"\n{'nothing found' if report.ok else 'findings'}; all of it in {folder}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
