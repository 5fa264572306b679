"""A crawl of a site with many documents: they are read, within their share and their budget."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from demo.documents import docx, pdf, word_paragraph
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


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, body = BODIES.get(self.path, ("text/plain", b""))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        yield site.server_address[1]
        site.shutdown()
        thread.join()


def test_documents_are_read_within_their_share_and_budget(tmp_path: Path, redis_url: str) -> None:
    crawl = Crawls(tmp_path, redis_url)
    feed = tmp_path / "pages.jsonl"
    budgets = json.dumps({"document": {"max_per_host": BUDGET}})
    with serving() as port:
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
