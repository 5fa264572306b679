"""`scrapy topic`: train a topic for focused crawls, and explain its scores.

Exit 0: done; 1: the page is not stored; 2: wrong arguments, examples or settings; 3: the database
is away.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from heapq import nlargest, nsmallest
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from crawler import config
from crawler.commands._examples import (
    Examples,
    NotStoredPage,
    Pages,
    Unusable,
    is_url,
    read_examples,
    source_of,
)
from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    harmless,
    output_file,
    print_json,
    progress_bar,
    whole_number,
)
from crawler.discovery.follow import scorer
from crawler.errors import ConfigurationError, NotFound
from crawler.storage.readers import STORES
from crawler.topics.model import TopicModel, text_of
from crawler.topics.scorer import Relevance, points_of_link, standing, topic_scorer
from crawler.topics.training import BAYES, FOLDS, MODELS, STEPS, Trained, train
from crawler.util.extras import optional
from crawler.util.format import plural

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.items import Page

_WORDS_SHOWN = 12
_LINKS_SHOWN = 10
# Below this a model is of little use.
_WEAK_F1 = 0.7


def _store_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--crawl", metavar="NAME", help="only stored pages of this crawl (all)")
    parser.add_argument(
        "--store", choices=STORES, help="which of SINKS has the pages (mongo, if there are both)"
    )


# --- train ----------------------------------------------------------------------------------------


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    for name, what in (("positive", "on topic"), ("negative", "off topic")):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            required=True,
            metavar="DIR|FILE|URL",
            help=f"pages {what}: folders, in which each file is one; URLs of stored pages; files "
            "of such URLs or of texts, one a line; JSON lines of scrapy pages export (.jsonl); "
            "single pages (HTML, PDF …)",
        )
    parser.add_argument(
        "-o", dest="output", required=True, metavar="FILE", help="where to write it: news.topic"
    )
    parser.add_argument(
        "--model",
        choices=MODELS,
        default=BAYES,
        help="multinomial naive Bayes (the default), or logistic regression",
    )
    _store_options(parser)
    add_json_option(parser)


def _train(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    # Before the examples are read, which may take long.
    optional("sklearn", extra="topic", what="scrapy topic train")
    kinds = {
        name: [source_of(f"--{name}", given) for given in getattr(arguments, name)]
        for name in ("positive", "negative")
    }
    output = output_file(arguments.output)

    async def read() -> tuple[Examples, Examples]:
        pages = Pages(settings, arguments)
        total = sum(source.count for sources in kinds.values() for source in sources)
        try:
            with progress_bar("examples", total) as advance:
                positive = await read_examples(pages, kinds["positive"], advance)
                return positive, await read_examples(pages, kinds["negative"], advance)
        finally:
            await pages.close()

    positive, negative = asyncio.run(read())
    for name, found in (("positive", positive), ("negative", negative)):
        print(f"{name}: {harmless(str(found))}", file=sys.stderr)
    both = set(positive.texts) & set(negative.texts)
    if both:
        raise ConfigurationError(
            f"{len(both)} of the texts are given as positive and as negative, as "
            f"{min(both)[:60].strip()!r}; leave each out of one."
        )
    threshold = config.value(settings, "TOPIC_THRESHOLD")
    with progress_bar("training", STEPS) as advance:
        trained = train(
            positive.texts,
            negative.texts,
            kind=arguments.model,
            threshold=threshold,
            report=advance,
        )
    trained.model.save(output)
    if arguments.json:
        facts = {**trained.model.trained, "model": arguments.model}
        print_json({**facts, "terms": len(trained.model.terms), "output": str(output)})
    else:
        _print_trained(trained, output)


def _print_trained(trained: Trained, output: Path) -> None:
    model, found = trained.model, trained.validation
    print(
        f"precision {found.precision:.3f}, recall {found.recall:.3f} for scores of "
        f"{found.threshold:g} or more, by cross-validation: each text was scored by a model that "
        f"was trained without it ({FOLDS} folds)"
    )
    if found.f1 < _WEAK_F1:
        print(
            "This is weak. Give more examples, negative ones that the crawl will meet, or "
            "another --model."
        )
    # By what a word of average frequency adds.
    weights = {term.decode(): idf * weight for term, (idf, weight) in model.terms.items()}
    for name, words in (
        ("for", nlargest(_WORDS_SHOWN, weights, key=lambda word: weights[word])),
        ("against", nsmallest(_WORDS_SHOWN, weights, key=lambda word: weights[word])),
    ):
        print(f"words {name}: {harmless(' '.join(words))}")
    print(
        f"{output} is written, with {len(model.terms):,} words. Crawl with it: "
        f"scrapy crawl web -a seeds=… -a topic={output}"
    )


# --- explain --------------------------------------------------------------------------------------


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", metavar="URL|FILE", help="a stored page, or a file")
    parser.add_argument(
        "-m",
        "--model",
        metavar="FILE",
        help="the topic (PAGE_SCORER, or else the only file *.topic in this folder)",
    )
    parser.add_argument(
        "--words", type=whole_number, default=_WORDS_SHOWN, metavar="N", help="how many to show"
    )
    _store_options(parser)
    add_json_option(parser)


def _explain(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    given = arguments.model
    if given is None and not config.value(settings, "PAGE_SCORER"):
        given = _only_topic()
    page_scorer = topic_scorer(settings, given)
    model = TopicModel.open(given) if given is not None else None

    async def explain() -> dict[str, Any]:
        page = await _page_of(settings, arguments)
        found = await page_scorer.score(page)
        if found is None:
            raise ConfigurationError(f"{page_scorer.name} fails for this page.")
        # The URL that a file gets to be read has a meaning only for its links.
        name = page.url if is_url(arguments.page) else arguments.page
        return _explained(settings, name, page, found, model)

    found = asyncio.run(explain())
    if arguments.json:
        print_json({**found, "words": [share._asdict() for share in found["words"]]})
    else:
        _print_explained(found, arguments.words)


def _explained(
    settings: BaseSettings, name: str, page: Page, found: Relevance, model: TopicModel | None
) -> dict[str, Any]:
    """Return all that is known of a page's relevance, and of its links."""
    weight = scorer(settings).weight
    threshold = config.value(settings, "TOPIC_THRESHOLD")
    how = standing(found.page, threshold)
    texts = {anchor.url: anchor.text for anchor in page.anchors}
    links = [
        {
            "url": url,
            "text": texts.get(url, ""),
            # 0.5 says nothing.
            "points": points_of_link(found.links.get(url, 0.5), weight),
        }
        for url in page.links
    ]
    return {
        "url": name,
        "title": page.title,
        "relevance": found.page,
        "threshold": threshold,
        "topic": how,
        "bias": None if model is None else model.bias,
        "words": [] if model is None else model.shares(text_of(page)),
        "link_points": weight(f"{how}_topic"),
        "links": links,
    }


def _only_topic() -> str:
    found = sorted(str(path) for path in Path().glob("*.topic"))
    if len(found) != 1:
        those = f"there are {', '.join(found)}" if found else "there is no file *.topic here"
        raise ConfigurationError(f"Say which topic: -m FILE; {those}.")
    return found[0]


async def _page_of(settings: BaseSettings, arguments: argparse.Namespace) -> Page:
    given, pages = arguments.page, Pages(settings, arguments)
    try:
        return await (pages.of_url(given) if is_url(given) else pages.of_file(Path(given)))
    except NotStoredPage as error:
        raise NotFound(
            f"{given} is {error}: crawl it first, or save it as a file and give that."
        ) from error
    except Unusable as error:
        raise ConfigurationError(f"{given} cannot be read: it is {error}.") from error
    finally:
        await pages.close()


def _print_explained(found: dict[str, Any], most: int) -> None:
    print(harmless(f"{found['url']}  {found['title']}".rstrip()))
    if found["relevance"] is None:
        print("no relevance: no word of the topic is in it")
    else:
        least = found["threshold"]
        print(f"{found['relevance']:.3f}  {found['topic']} topic ({least:g} or more is on topic)")
    if found["words"]:
        print("\nwords for and against, and what each adds to the log-odds:")
        rows = [(f"{share.log_odds:+.2f}", share.word) for share in found["words"]]
        good = [row for row in rows if row[0].startswith("+")][:most]
        bad = [row for row in reversed(rows) if row[0].startswith("-")][:most]
        width = max((len(word) for _, word in good), default=0)
        for left, right in zip_longest(good, bad, fillvalue=("", "")):
            line = f"{left[0]:>6}  {left[1]:<{width}}  {right[0]:>6}  {right[1]}"
            print(harmless(line).rstrip())
        rest = sum(share.log_odds for share in found["words"])
        print(f"all {len(rows):,} words {rest:+.2f}, and {found['bias']:+.2f} for any page")
    links: Sequence[dict[str, Any]] = found["links"]
    print(f"\n{found['link_points']:+d} points for each of its {plural(len(links), 'link')}")
    pointed = sorted((link for link in links if link["points"]), key=lambda link: -link["points"])
    if len(pointed) > 2 * _LINKS_SHOWN:
        pointed = [*pointed[:_LINKS_SHOWN], *pointed[-_LINKS_SHOWN:]]
    for link in pointed:
        print(harmless(f"{link['points']:+4d} more  {link['url']}  {link['text']}".rstrip()))


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each use of a topic."""

    name = "topic"
    summary = "Train a topic for focused crawls, and explain the scores of pages"
    verbs = {  # noqa: RUF012 - as declared by VerbCommand
        "train": Verb("train a topic from examples", _train_arguments, _train),
        "explain": Verb("show why a page is on topic or not", _explain_arguments, _explain),
    }
