// The dead-letter queue: look, and give URLs another life.

import { call, get } from "./api.js";
import { $, confirm, h, replaceRows, setText, toast } from "./dom.js";
import { count, span, words } from "./format.js";

const LIMIT = 50;
// The newest are cheap to list; those of one reason are searched for, so that is repeated seldom.
const SEARCH_AGAIN_MS = 30000;

export class Dead {
  constructor(failed) {
    this.failed = failed;
    this.reasons = new Set();
    this.request = 0;
    this.loaded = -Infinity;
    $("dead-reason").addEventListener("change", () => this.load());
    $("requeue").addEventListener("click", () => this.requeue());
    replaceRows($("dead-rows"), [], 4, "Loading …");
  }

  // Keep what is shown up to date.
  refresh() {
    if (!$("dead-reason").value || performance.now() - this.loaded > SEARCH_AGAIN_MS) this.load();
  }

  async load() {
    const request = (this.request += 1);
    this.loaded = performance.now();
    const reason = $("dead-reason").value;
    try {
      const found = await get("/dead", { reason, limit: LIMIT });
      // An older answer may come later.
      if (request === this.request) this.show(found, reason);
    } catch (error) {
      if (request !== this.request) return;
      replaceRows($("dead-rows"), [], 4, error.message);
      this.failed(error);
    }
  }

  show(found, reason) {
    const rows = found.letters.map((letter) =>
      h(
        "tr",
        {},
        h("td", { class: "url", title: letter.url }, letter.url || "(a damaged record)"),
        h("td", {}, h("span", { class: "badge bad" }, words(letter.reason))),
        h("td", { class: "number" }, count(letter.history.length + 1)),
        h("td", { class: "number" }, `${span((Date.now() - Date.parse(letter.at)) / 1000)} ago`),
      ),
    );
    replaceRows($("dead-rows"), rows, 4, reason ? "No URL was given up for this reason." : "No URL was given up.");
    found.letters.forEach((letter) => this.offer(letter.reason));
    this.total = found.total;
    $("requeue").disabled = !found.letters.length;
    setText($("requeue"), reason ? "Requeue these" : "Requeue all");
    const shown = found.next ? `The newest ${count(found.letters.length)} are shown. ` : "";
    setText($("dead-count"), found.total ? `${shown}${count(found.total)} in all.` : "");
  }

  offer(reason) {
    if (this.reasons.has(reason) || this.reasons.size >= 50) return;
    this.reasons.add(reason);
    $("dead-reason").append(h("option", { value: reason }, words(reason)));
  }

  async requeue() {
    const reason = $("dead-reason").value;
    const what = reason ? `all URLs that were given up for “${words(reason)}”` : `all ${count(this.total)} URLs that were given up`;
    if (!(await confirm("Requeue dead letters", `Crawl ${what} once more, with no attempt on record?`, "Requeue"))) return;
    try {
      const { requeued } = await call("POST", "/dead/requeue", { reason });
      toast(`${count(requeued)} ${requeued === 1 ? "URL waits" : "URLs wait"} again.`);
      await this.load();
    } catch (error) {
      this.failed(error, true);
    }
  }
}
