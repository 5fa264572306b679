// The words of figures, as in the terminal and docs/glossary.md, and what they mean.

import { $, h } from "./dom.js";

export const WORDS = {
  "pages crawled": "Visits with a 2xx response, of all runs and processes of the crawl.",
  "pages": "Visits with a 2xx response.",
  "pages/s": "Pages crawled a second, over the last seconds.",
  "success": "Share of visits that found their page, or found it not modified.",
  "waiting": "URLs in the front queues and back queues: known, and not fetched yet.",
  "leased": "URLs that a process holds: it fetches them, or will in a moment.",
  "leases": "URLs that this process holds.",
  "held": "URLs that this process holds.",
  "to retry": "URLs whose fetch failed and that wait for another attempt.",
  "to recrawl": "URLs of pages that wait for their next visit.",
  "URLs found": "URLs that were ever added: seeds, links, sitemaps.",
  "done": "URLs that were finished, with a page or without one.",
  "given up": "Dead letters: URLs whose last attempt failed, kept with the reason.",
  "dead letters": "URLs whose last attempt failed, kept with the reason.",
  "dropped": "URLs that were found and then left out: excluded, purged, over a budget, or without room.",
  "estimated end": "When nothing is left to crawl, by the last 15 minutes, where that can be told.",
  "processes": "Live processes of the crawl.",
  "process": "One crawler process, from its start to its end.",
  "F1": "First front queue: the most important pages. By default 40% of the turns.",
  "F2": "Second front queue: important pages. By default 30% of the turns.",
  "F3": "Third front queue: usual pages. By default 20% of the turns.",
  "F4": "Fourth front queue: less important pages. By default 7% of the turns.",
  "F5": "Fifth front queue: the least important pages. By default 3% of the turns: none starves.",
  "docs": "Front queue of documents: PDF, Office files, books.",
  "media": "Front queue of media and other files.",
  "files": "Front queues of documents, media and other files.",
  "back": "Back queues: URLs of hosts that have their turn now, one queue for each host.",
  "hosts": "Hosts with waiting URLs: a host is contacted by one fetch at a time.",
  "ready": "The delay of the host is over, and URLs of it wait.",
  "in flight": "Being fetched now.",
  "resting": "URLs of the host wait until its delay is over.",
  "blocked": "People stopped fetches from the host until a time; its URLs wait.",
  "excluded": "People excluded the host: its URLs are dropped.",
  "idle": "No URL of the host waits in its back queues.",
  "delay": "Time from the end of a fetch to the next contact of the host.",
  "next contact": "When the next fetch from the host may start: its clock.",
  "machine": "Name of the computer on which the process runs.",
  "pid": "Number of the process on its machine.",
  "shards": "Parts of the frontier from which the process prefers to take URLs.",
  "restarts": "How often the process was started again after it had ended by mistake.",
  "loop lag": "How late the event loop was at most: if it is busy, all fetches wait.",
  "Redis answer": "Time that Redis took for the last answer to this process.",
  "running": "Time since the process began.",
  "store": "Whether pages can be stored: ok, off, away (pages wait) or spooling (pages go to disk).",
  "sink": "A place where pages go, such as MongoDB.",
  "sinks": "Places where pages go, such as MongoDB.",
  "state": "What is going on with it, in one word.",
  "lag": "How long the oldest page has waited for its sink.",
  "size": "Bytes that were written.",
  "bytes/s": "Bytes that were written a second, over the last seconds.",
  "failed writes": "Writes that failed; they are repeated.",
  "fetch time": "Time of a fetch from the request to the last byte: half of them took p50 or less, 95% p95, 99% p99.",
  "parse time": "Time to read a page: half of them took p50 or less, 95% p95, 99% p99.",
  "status codes": "HTTP responses by status, of the last hour.",
  "errors": "Errors in the log.",
  "failures": "Visits that ended without a page or are tried again, by cause, in the last hour.",
  "links found": "URLs that were offered to the frontier, also known ones.",
  "new URLs": "URLs that the frontier had not seen before.",
  "links not followed": "Links that scope, limits or traps refused.",
  "duplicates": "Pages with the content of another page of the crawl: exact, or near.",
  "exact duplicates": "Pages with the same content as another page of the crawl.",
  "near duplicates": "Pages with nearly the same content as another page of the crawl.",
  "received": "Bytes of responses.",
  "robots.txt": "URLs that were not fetched, because robots.txt forbids it.",
  "denied by robots.txt": "URLs that were not fetched, because robots.txt forbids it.",
  "robots.txt fetched": "Fetches of robots.txt files.",
  "put off for robots.txt": "URLs that wait because a robots.txt cannot be fetched.",
  "delays": "Delays of hosts after a fetch, in the last hour.",
  "delays for overload": "Delays after 429 or 503, or that a host asked for by Retry-After, in the last hour.",
  "names looked up": "Names of hosts for which a name server was asked.",
  "pages stored": "Pages whose content every sink has, or the spool.",
  "records written": "Responses that every sink has, or the spool, with content or not.",
  "content": "Bytes of these responses.",
  "Redis memory": "Memory that Redis uses, for all crawls, and its share of maxmemory if that is set.",
  "spooled": "Pages on disk that wait for a sink that is away.",
  "retries": "Fetches that failed and are tried again.",
  "failed": "Visits that ended without a page.",
  "not kept": "Pages that are not stored, such as those with noindex.",
  "not modified": "Recrawls with a 304 response: the page has not changed.",
  "crawl": "All URLs and pages under one name.",
  "options": "Values that all processes of the crawl follow: scope, limits, weights.",
  "attempts": "Failed fetches of the URL so far.",
  "depth": "Links from a seed to the URL.",
  "queue": "Front queue of the URL by its score: F1 to F5, docs or media.",
  "refused": "Why the URL would be left out now, and by which rule.",
  "overloads": "Answers 429 and 503 of the host that still count.",
  "failures in a row": "Connections to the host that failed, one after the other.",
  "budget": "Most pages that are crawled of the host.",
  "parallelism": "Most fetches from the host at the same time.",
  "versions": "When the content of the page changed, and its hash.",
  "rendered": "Pages that a browser rendered, and how often one was put off since no browser was free.",
  "recrawled": "Pages that were visited again: changed, unchanged, failed.",
  "items scraped": "Items that went through all pipelines, other than pages.",
  "seeds pushed": "New seeds that others pushed to Redis.",
  "on topic": "Pages of a focused crawl that are on its topic.",
  "elapsed": "Time since the run began.",
  "left": "URLs that still have to be crawled.",
  "URLs": "Addresses that the crawl knows."
};

// A word with its meaning, which shows when it is pointed at, focused or tapped.
export const word = (name, text = name) => explained(h("span", { class: "word" }, text), name);

export function explained(element, name) {
  element.dataset.word = name;
  element.tabIndex = 0;
  element.setAttribute("role", "note");
  element.setAttribute("aria-label", `${element.textContent}: ${WORDS[name]}`);
  return element;
}

// Explain all words that the page itself has, and show meanings from now on.
export function explainWords() {
  for (const element of document.querySelectorAll("[data-word]")) {
    element.classList.add("word");
    explained(element, element.dataset.word);
  }
  const of = (event) => event.target.closest?.("[data-word]");
  for (const kind of ["pointerover", "focusin", "click"]) {
    document.addEventListener(kind, (event) => (of(event) ? show(of(event)) : stay()));
  }
  for (const kind of ["pointerout", "focusout"]) document.addEventListener(kind, stay);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", stay, { passive: true, capture: true });
}

// Show the meaning of the word that the keyboard is at, if it is at one.
function stay() {
  const focused = document.querySelector("[data-word]:focus-visible");
  if (focused) show(focused);
  else hide();
}

function show(element) {
  const tip = $("meaning");
  tip.textContent = WORDS[element.dataset.word];
  tip.hidden = false;
  const place = element.getBoundingClientRect();
  const left = Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  const below = place.bottom + 6 + tip.offsetHeight < document.documentElement.clientHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? place.bottom + 6 : place.top - tip.offsetHeight - 6}px`;
}

function hide() {
  $("meaning").hidden = true;
}
