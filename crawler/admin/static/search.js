// Search the stored pages. Snippets come as escaped HTML with <b>; they are shown as text and marks.

import { get } from "./api.js";
import { $, h, setText } from "./dom.js";
import { count } from "./format.js";

const LIMIT = 10;
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

const plainText = (escaped) => escaped.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]);

// All other tags are escaped, so every second piece is a marked one.
const marked = (snippet) =>
  snippet.split(/<\/?b>/).map((piece, i) => (i % 2 ? h("mark", {}, plainText(piece)) : plainText(piece)));

export class Search {
  constructor(failed) {
    this.failed = failed;
    this.request = 0;
    $("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.load();
    });
  }

  async load() {
    const request = (this.request += 1);
    setText($("search-summary"), "Searching …");
    try {
      const found = await get("/pages/search", {
        q: $("search-words").value.trim(),
        domain: $("search-domain").value.trim(),
        limit: LIMIT,
      });
      // An older answer may come later.
      if (request === this.request) this.show(found);
    } catch (error) {
      if (request !== this.request) return;
      $("search-results").replaceChildren();
      setText($("search-summary"), error.message);
      this.failed(error);
    }
  }

  show({ results, total }) {
    const best = total > results.length ? `, the best ${count(results.length)}` : "";
    setText($("search-summary"), total ? `${count(total)} ${total === 1 ? "page" : "pages"}${best}` : "No page has all of that.");
    $("search-results").replaceChildren(...results.map((page) => this.item(page)));
  }

  item(page) {
    return h(
      "li",
      {},
      h("a", { href: `#url/${encodeURIComponent(page.url)}` }, page.title || page.url),
      // Only http and https are ever crawled.
      h("div", { class: "where" }, h("a", { href: page.url, target: "_blank", rel: "noopener noreferrer" }, page.url), ` · ${page.crawled_at.slice(0, 16).replace("T", " ")} UTC`),
      h("div", {}, ...marked(page.snippet)),
    );
  }
}
