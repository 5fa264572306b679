"""A crawl of a site with many documents: they are read, within their share and their budget."""

import json
from pathlib import Path

from demo.answer import Answer, whole
from demo.documents import docx, pdf, word_paragraph
from demo.server import serving_thread
from tests.acceptance.crawls import Crawls

PAGES, FILES, BUDGET = 12, 40, 8


def _bodies() -> dict[str, tuple[str, bytes]]:
    """The type and the body of each path."""
    files = "".join(f"<a href=/{number}.pdf>f</a>" for number in range(FILES))
    pages = "".join(f"<a href=/page{number}>p</a>" for number in range(PAGES))
    more = "<a href=/get?id=3>g</a><a href=/notes.docx>n</a>"
    found = {
        # The documents come first.
        "/": ("text/html", f"<title>t</title>{more}{files}{pages}".encode()),
        "/get?id=3": ("application/pdf", pdf(["A file behind a query"])),
        "/notes.docx": ("application/octet-stream", docx(word_paragraph("Notes of Office"))),
        "/behind": ("text/html", b"<title>Only a file links here</title>"),
    }
    for number in range(PAGES):
        found[f"/page{number}"] = ("text/html", b"<p>A page with number %d" % number)
    for number in range(FILES):
        links = ["/behind"] if number == 0 else []
        found[f"/{number}.pdf"] = ("application/pdf", pdf([f"File {number}"], links=links))
    return found


BODIES = _bodies()


class Site:
    def answer(self, _host: str, target: str, _validators: object = None) -> Answer:
        kind, body = BODIES.get(target, ("text/plain", b""))
        return whole(200, body, {"Content-Type": kind})


def test_documents_are_read_within_their_share_and_budget(tmp_path: Path, redis_url: str) -> None:
    crawl = Crawls(tmp_path, redis_url)
    feed = tmp_path / "pages.jsonl"
    budgets = json.dumps({"document": {"max_per_host": BUDGET}})
    with serving_thread(Site()) as port:
        home = f"http://127.0.0.1:{port}"
        run = crawl.run(
            f"{home}/",
            settings={"TYPE_BUDGETS": budgets, "STATS_DUMP": True},
            options=("-o", str(feed)),
        )
    assert run.code == 0, run.stderr
    records = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    pages = {page["url"].removeprefix(home): page for page in records}
    texts = {path: page["text"] for path, page in pages.items()}
    assert texts["/get?id=3"] == "A file behind a query"
    assert "/behind" in pages
    assert texts["/notes.docx"] == "Notes of Office"
    files = [path for path in pages if path.endswith(".pdf")]
    assert len(files) == BUDGET - 1
    assert all(texts[path] == f"File {path[1:-4]}" for path in files)
    assert f"'links/refused/budget_document': {FILES + 1 - BUDGET}," in run.stderr
    # The pages did not wait for the files that were found before them.
    fetched = sorted(pages, key=lambda path: pages[path]["crawled_at"])
    last = max(fetched.index(f"/page{number}") for number in range(PAGES))
    assert last <= PAGES + 1 + BUDGET // 2
