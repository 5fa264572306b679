// The dead-letter queue: what is dead and why, which hosts fail most, and give URLs another life.

import { call, get } from "./api.js";
import { $, confirm, h, replaceRows, setText, toast } from "./dom.js";
import { badge } from "./figures.js";
import { ago, count, words } from "./format.js";

const LIMIT = 50;
// All letters are read to count them, and to find those of one reason: that is repeated seldom.
const AGAIN_MS = 30000;

export class Dead {
  constructor(failed) {
    this.failed = failed;
    this.request = 0;
    this.loaded = -Infinity;
    this.reason = "";
    this.host = "";
    $("requeue").addEventListener("click", () => this.requeue());
    $("dead-all").addEventListener("click", () => this.choose("", ""));
  }

  open(host) {
    return this.choose("", host);
  }

  choose(reason, host) {
    this.reason = reason;
    this.host = host;
    return this.load();
  }

  refresh() {
    if (performance.now() - this.loaded > AGAIN_MS) this.load();
  }

  async load() {
    const request = (this.request += 1);
    this.loaded = performance.now();
    const { reason, host } = this;
    try {
      const [groups, found] = await Promise.all([get("/dead/groups"), get("/dead", { reason, host, limit: LIMIT })]);
      // An older answer may come later.
      if (request !== this.request) return;
      this.showGroups(groups);
      this.show(found);
    } catch (error) {
      if (request !== this.request) return;
      replaceRows($("dead-rows"), [], 4, error.message);
      this.failed(error);
    }
  }

  showGroups({ reasons, hosts, read, complete }) {
    const number = (n) => h("td", { class: "number" }, count(n));
    const list = (counts, name) => Object.entries(counts).map(([one, n]) => `${name(one)} ${count(n)}`).join(", ");
    const choice = (text, reason, host) => {
      const pressed = String(reason === this.reason && host === this.host);
      return h("td", {}, h("button", { type: "button", class: "plain", "aria-pressed": pressed, onclick: () => this.choose(reason, host) }, text));
    };
    const same = (text) => text || "(none)";
    const byReason = reasons.map((one) => h("tr", {}, choice(words(one.reason), one.reason, ""), number(one.count), h("td", { class: "url" }, list(one.hosts, same)), h("td", { class: "number" }, ago(one.newest))));
    const byHost = hosts.map((one) => h("tr", {}, choice(same(one.host), "", one.host), number(one.count), h("td", { class: "url" }, list(one.reasons, words))));
    replaceRows($("dead-reasons"), byReason, 4, "No URL was given up.");
    replaceRows($("dead-hosts"), byHost, 3, "No host has URLs that were given up.");
    setText($("dead-read"), complete ? "" : `Of the newest ${count(read)}.`);
  }

  show(found) {
    const rows = found.letters.map((letter) =>
      h(
        "tr",
        {},
        h("td", { class: "url" }, letter.url ? h("a", { href: `#url/${encodeURIComponent(letter.url)}`, title: letter.url }, letter.url) : "(a damaged record)"),
        h("td", {}, badge(words(letter.reason), "bad")),
        h("td", { class: "number" }, count(letter.history.length + 1)),
        h("td", { class: "number" }, ago(letter.at)),
      ),
    );
    const chosen = [words(this.reason), this.host].filter(Boolean).join(" of ");
    replaceRows($("dead-rows"), rows, 4, chosen ? `No URL was given up: ${chosen}.` : "No URL was given up.");
    this.total = found.total;
    $("requeue").disabled = !found.letters.length;
    setText($("requeue"), chosen ? "Requeue these" : "Requeue all");
    setText($("dead-chosen"), chosen ? `Dead letters: ${chosen}` : "All dead letters");
    $("dead-all").hidden = !chosen;
    const shown = found.next ? `The newest ${count(found.letters.length)} are shown. ` : "";
    setText($("dead-count"), found.total ? `${shown}${count(found.total)} in all.` : "");
  }

  async requeue() {
    const { reason, host } = this;
    const whose = [reason && `for “${words(reason)}”`, host && `of ${host}`].filter(Boolean).join(" ");
    const what = whose ? `all URLs ${whose} that were given up` : `all ${count(this.total)} URLs that were given up`;
    if (!(await confirm("Requeue dead letters", `Crawl ${what} once more, with no attempt on record?`, "Requeue"))) return;
    try {
      const { requeued } = await call("POST", "/dead/requeue", { reason, host });
      toast(`${count(requeued)} ${requeued === 1 ? "URL waits" : "URLs wait"} again.`);
      await this.load();
    } catch (error) {
      this.failed(error, true);
    }
  }
}
