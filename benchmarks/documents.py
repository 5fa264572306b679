"""What do documents cost the crawl beside them, how much memory do they take, how fast are they?

`rate` crawls the synthetic web, whose hosts answer after half a second, in turns: with
FOLLOW_DOCUMENTS=False, and with all documents read. Every fourth host has a part of the zoo of
hostile files (demo/hostile_files.py): bombs, and files that take their readers to the limits of
time and memory. They keep all workers busy for longer than the pages take. What is compared is the
rate of pages on the other hosts (beside.py).

`documents.peak_mb` is the most memory that the crawl or one of its workers had.

`read` is the CPU time for an ordinary file of each type, in a process that runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.beside import Work, crawls_in_turns, rates
from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from crawler.parsing import sniff
from crawler.parsing.document import DocumentLimits
from crawler.parsing.documents import read_document
from demo.documents import docx, epub, odf, pdf, pptx, word_paragraph, xlsx
from demo.profile import Profile
from demo.web import WebOptions

_TARGET_RATE, _TARGET_MB = 0.9, 600.0
_HOSTS, _PAGES, _QUICK_PAGES = 64, 100, 30
_ROUNDS, _QUICK_ROUNDS = 3, 2


def measure_rate(quick: bool) -> Iterator[Figure | Skipped]:
    """Crawl with and without documents."""
    if not Path("/proc/self/status").exists():
        yield Skipped("documents.rate_kept", "this system does not tell the memory of a process")
        return
    web = WebOptions(_HOSTS, _QUICK_PAGES if quick else _PAGES, zoo="documents")
    works = (Work("alone", {"FOLLOW_DOCUMENTS": False}), Work("beside"))
    runs = crawls_in_turns(web, _has_no_documents, works, _QUICK_ROUNDS if quick else _ROUNDS)
    beside, found = runs["beside"], rates(runs)
    kept = found["beside"] / found["alone"]
    yield Figure("documents.pages_per_s", found["beside"], "pages/s")
    yield Figure("documents.rate_kept", kept, "", target=at_least(_TARGET_RATE))
    crawl_mb, worker_mb = (
        max(one.crawl_mb for one in beside),
        max(one.worker_mb for one in beside),
    )
    yield Figure("documents.crawl_mb", crawl_mb, "MB")
    yield Figure("documents.worker_mb", worker_mb, "MB")
    yield Figure("documents.peak_mb", max(crawl_mb, worker_mb), "MB", target=at_most(_TARGET_MB))


def _has_no_documents(host: Profile) -> bool:
    return "documents" not in host.features


# --- reading ----------------------------------------------------------------------------------


def _paragraphs(number: int) -> list[str]:
    words = "All files of this kind have some paragraphs, and each has about as many words".split()
    return [" ".join(words[at % 7 :] + words) + f" {at}." for at in range(number)]


def ordinary_files() -> dict[str, bytes]:
    """Make a file of each type, with 5,000 to 10,000 words."""
    texts = _paragraphs(300)
    words = (word_paragraph(text, "H2" * (at % 20 == 0)) for at, text in enumerate(texts))
    body = "".join(f"<text:p>{text}</text:p>" for text in texts)
    return {
        sniff.PDF: pdf(["\n".join(texts[at : at + 15]) for at in range(0, 300, 15)]),
        sniff.DOCX: docx("".join(words)),
        sniff.XLSX: xlsx({"Sheet": [text.split()[:10] for text in texts * 3]}),
        sniff.PPTX: pptx([(text, text) for text in texts[:150]]),
        sniff.ODT: odf(sniff.ODT, f"<office:text>{body}</office:text>"),
        sniff.EPUB: epub(["".join(f"<p>{text}</p>" for text in texts[at::20]) for at in range(20)]),
    }


def measure_read(quick: bool) -> Iterator[Figure]:
    """Read an ordinary file of each type, again and again."""
    for kind, body in ordinary_files().items():
        times = []
        for _ in range(5 if quick else 20):
            started_s = time.process_time()
            found = read_document(kind, body, "http://h.test/file", limits=DocumentLimits())
            times.append((time.process_time() - started_s) * 1000)
        assert len(found.text.split()) > 1000, kind
        yield Figure(f"documents.read_ms.{_SHORT[kind]}", median(times), "ms")


_SHORT = {
    sniff.PDF: "pdf",
    sniff.DOCX: "docx",
    sniff.XLSX: "xlsx",
    sniff.PPTX: "pptx",
    sniff.ODT: "odt",
    sniff.EPUB: "epub",
}

PARTS = {"rate": measure_rate, "read": measure_read}

if __name__ == "__main__":
    sys.exit(run("benchmarks.documents", __doc__, PARTS))
