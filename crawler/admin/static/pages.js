// Browse the stored pages, the newest first; a click shows one with its content.

import { get } from "./api.js";
import { $, h, replaceRows, setText } from "./dom.js";
import { badge } from "./figures.js";
import { ago, bytes, count, words } from "./format.js";

const LIMIT = 25;
const COLUMNS = 5;
const TYPING_MS = 250;
const FIRST = { at: "", before: 0 };

export class Pages {
  constructor(failed) {
    this.failed = failed;
    this.request = 0;
    // Where each list began, and the pages before it, up to the one that is shown.
    this.starts = [FIRST];
    $("pages-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.first();
    });
    $("pages-domain").addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.first(), TYPING_MS);
    });
    $("pages-status").addEventListener("change", () => this.first());
    $("pages-back").addEventListener("click", () => {
      this.starts.pop();
      this.load();
    });
    $("pages-next").addEventListener("click", () => {
      this.starts.push(this.next);
      this.load();
    });
  }

  open(domain) {
    $("pages-domain").value = domain;
    return this.first();
  }

  first() {
    this.starts = [FIRST];
    return this.load();
  }

  async load() {
    const request = (this.request += 1);
    try {
      const query = { domain: $("pages-domain").value.trim(), status: $("pages-status").value, before: this.starts.at(-1).at, limit: LIMIT };
      const found = await get("/pages", query);
      // An older answer may come later.
      if (request === this.request) this.show(found);
    } catch (error) {
      if (request !== this.request) return;
      replaceRows($("page-rows"), [], COLUMNS, error.message);
      setText($("pages-count"), "");
      for (const id of ["pages-back", "pages-next"]) $(id).disabled = true;
      this.failed(error);
    }
  }

  show({ pages, next }) {
    const { before } = this.starts.at(-1);
    this.next = { at: next, before: before + pages.length };
    const rows = pages.map((page) =>
      h(
        "tr",
        {},
        h("td", { class: "url" }, h("a", { href: `#url/${encodeURIComponent(page.url)}`, title: page.url }, page.title || page.url), page.title ? h("div", { class: "where" }, page.url) : null),
        h("td", {}, badge(String(page.status || "no answer"), page.status >= 200 && page.status < 300 ? "good" : "warn"), page.reason ? ` ${words(page.reason)}` : ""),
        h("td", {}, page.content_type),
        h("td", { class: "number" }, bytes(page.size_bytes)),
        h("td", { class: "number" }, ago(page.crawled_at)),
      ),
    );
    replaceRows($("page-rows"), rows, COLUMNS, "No page fits.");
    setText($("pages-count"), pages.length ? `${count(before + 1)}–${count(before + pages.length)}, the newest first` : "");
    $("pages-back").disabled = this.starts.length < 2;
    $("pages-next").disabled = next === null;
  }
}
