// Look up a URL: where it is, what would keep it out, and what is stored of its page.

import { call, get } from "./api.js";
import { $, confirm, h, setText, toast } from "./dom.js";
import { badge, facts, lifeBadge, queueNames } from "./figures.js";
import { ago, bytes, count, day, NONE, span, until, words } from "./format.js";

const TABS = ["text", "source", "links", "headers", "versions", "record"];

export class Urls {
  constructor(failed) {
    this.failed = failed;
    this.url = "";
    this.request = 0;
    this.page = null;
    $("url-forget").addEventListener("click", () => this.forget());
    $("url-add").addEventListener("click", () => this.add());
    for (const tab of TABS) $(`tab-${tab}`).addEventListener("click", () => this.tab(tab));
  }

  open(url) {
    this.url = url;
    $("url-result").hidden = !url;
    if (!url) return null;
    setText($("url-title"), url);
    for (const id of ["url-parts", "page-parts"]) $(id).hidden = true;
    setText($("url-note"), "Loading …");
    return this.load();
  }

  async load() {
    const request = (this.request += 1);
    const query = { url: this.url };
    try {
      const [state, { refusals }] = await Promise.all([get("/urls", query), get("/urls/refusals", query)]);
      if (request !== this.request) return;
      this.showState(state, refusals);
      const page = state.page ? await get("/pages/page", query) : null;
      if (request === this.request) this.showPage(page, state.page_note);
    } catch (error) {
      if (request !== this.request) return;
      setText($("url-note"), error.message);
      this.failed(error);
    }
  }

  showState(found, refusals) {
    setText($("url-title"), found.url);
    setText($("url-note"), "");
    $("url-parts").hidden = false;
    $("url-forget").disabled = found.state === "unseen";
    $("url-add").disabled = found.state !== "unseen";
    const meaning = { unseen: "The crawl has never met it.", known: "It is done, or far back in a queue.", waiting: "It waits for its turn.", leased: "A process fetches it, or will in a moment.", delayed: `It waits for its ${found.reason}.`, dead: `It was given up: ${words(found.reason)}.` }[found.state];
    $("url-life").replaceChildren(lifeBadge(found.state), ` ${meaning}`);
    const host = new URL(found.url).host;
    facts($("url-facts"), [
      ["host", h("a", { href: `#host/${encodeURIComponent(host)}` }, host)],
      ["process", found.owner],
      [found.state === "dead" ? "given up" : "next visit", found.at === null ? "" : found.state === "dead" ? ago(found.at) : `in ${span(Math.max(0, until(found.at)))}`],
      ["depth", found.depth ?? ""],
      ["queue", found.queue ? queueNames[found.queue - 1] : ""],
      ["attempts", found.attempts ?? ""],
      ["last visit", found.visited_at ? ago(found.visited_at) : ""],
      ["changes a day", found.changes_per_day ?? ""],
    ], true);
    const gates = refusals.map((one) => h("li", {}, badge(one.gate, "bad"), ` ${one.detail} `, one.rule ? h("code", {}, one.rule) : null));
    $("url-refusals").replaceChildren(...(gates.length ? gates : [h("li", {}, "Nothing: a link to it from a page of the crawl would be followed.")]));
    const failures = found.history.map((one) => h("li", {}, badge(words(one.reason), "warn"), ` ${day(one.at)}`));
    $("url-history").replaceChildren(...(failures.length ? failures : [h("li", { class: "nothing" }, "No attempt failed.")]));
  }

  showPage(page, note) {
    this.page = page;
    $("page-parts").hidden = !page;
    setText($("page-note"), page ? page.note && `There is no content: ${words(page.note)}` : note);
    if (!page) return;
    const { record } = page;
    facts($("page-facts"), [
      ["title", record.title],
      ["status", record.status || "no answer"],
      ["reason", words(record.reason ?? "")],
      ["crawled", `${day(record.crawled_at)}, ${ago(record.crawled_at)}`],
      ["visits", record.visits && `${count(record.visits)}, ${count(record.changes)} changes`],
      ["next visit", record.next_crawl ? day(record.next_crawl) : ""],
      ["type", record.media_type || record.content_type],
      ["size", bytes(record.size_bytes)],
      ["language", record.text_language || record.language],
      ["duplicate of", record.duplicate_of],
      ["fetched as", record.final_url === this.url ? "" : record.final_url],
      ["flags", (record.flags ?? []).join(", ")],
    ], true);
    this.tab("text");
  }

  tab(name) {
    for (const tab of TABS) $(`tab-${tab}`).setAttribute("aria-pressed", String(tab === name));
    $("page-tab").replaceChildren(this[name](this.page));
    $("page-tab").scrollTop = 0;
  }

  // Texts of the web are shown as text, never as markup.
  text({ markdown, main_text: main, text, cut }) {
    return pre(markdown || main || text, "No text is stored.", cut);
  }

  source({ source, cut }) {
    return pre(source, "No source is stored, or it is no text.", cut);
  }

  links({ links }) {
    const items = links.map((url) => h("li", {}, h("a", { href: `#url/${encodeURIComponent(url)}` }, url)));
    return items.length ? h("ol", { class: "urls" }, ...items) : h("p", { class: "nothing" }, "It has no links.");
  }

  headers({ record }) {
    return table(Object.entries(record.headers ?? {}), "No headers are stored.");
  }

  versions({ record }) {
    const found = (record.versions ?? []).toReversed().map((one) => [day(one.at), one.content_hash ?? ""]);
    return table(found, "No version is stored.");
  }

  record({ record }) {
    return pre(JSON.stringify(record, null, 2), "");
  }

  async forget() {
    const text = `The crawl forgets ${this.url}: it is crawled again when it is added or found again. Its stored page stays.`;
    if (!(await confirm("Forget a URL", text, "Forget"))) return;
    await this.act("DELETE", `/urls?url=${encodeURIComponent(this.url)}`, undefined, "The URL is forgotten.");
  }

  add() {
    return this.act("POST", "/seed/urls", [this.url], "The URL was added as a seed.");
  }

  async act(method, path, body, done) {
    try {
      const answer = await call(method, path, body);
      const rejected = answer.urls?.find((one) => one.state === "rejected");
      if (rejected) toast(rejected.detail, "bad");
      else toast(done);
      await this.load();
    } catch (error) {
      this.failed(error, true);
    }
  }
}

function pre(text, nothing, cut = false) {
  if (!text) return h("p", { class: "nothing" }, nothing);
  return h("pre", { class: "text" }, text, cut ? "\n… (cut)" : "");
}

function table(entries, nothing) {
  if (!entries.length) return h("p", { class: "nothing" }, nothing);
  const list = h("dl", { class: "pairs" });
  list.append(...entries.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value ?? NONE))]));
  return list;
}
