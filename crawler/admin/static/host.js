// One host: why it is crawled as it is, its clock, robots.txt, names, errors, and orders for it.

import { call, get } from "./api.js";
import { $, confirm, h, setText, toast } from "./dom.js";
import { badge, bars, facts, lifeBadge, queueBars } from "./figures.js";
import { ago, count, day, NONE, span, words } from "./format.js";
import { againMs, block, nextContact, order, stateNow, unblock } from "./hosts.js";

// Orders that are numbers: field, and how the API calls it.
const ORDERS = { "order-delay": "delay_s", "order-budget": "budget", "order-parallelism": "parallelism", "order-queue": "queue" };

export class Host {
  constructor(failed) {
    this.failed = failed;
    this.name = "";
    this.request = 0;
    this.loaded = -Infinity;
    this.took = 0;
    $("host-block").addEventListener("click", () => this.toggle());
    $("host-purge").addEventListener("click", () => this.purge());
    $("robots-forget").addEventListener("click", () => this.forget("robots", "robots.txt is fetched anew."));
    $("dns-forget").addEventListener("click", () => this.forget("dns", "The name is looked up anew."));
    $("order-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.order();
    });
  }

  open(name) {
    this.name = name;
    this.shown = null;
    this.robots = "";
    setText($("host-title"), name);
    $("host-life").replaceChildren();
    setText($("host-block"), "Block");
    $("host-pages").href = `#pages/${encodeURIComponent(name)}`;
    $("host-dead").href = `#dead/${encodeURIComponent(name)}`;
    $("host-parts").hidden = true;
    setText($("host-note"), "Loading …");
    for (const id of Object.keys(ORDERS)) $(id).value = "";
    return this.load();
  }

  // A report reads all dead letters of the crawl.
  refresh() {
    if (this.name && performance.now() - this.loaded > againMs(this.took)) this.load();
  }

  async load() {
    const request = (this.request += 1);
    this.loaded = performance.now();
    try {
      const found = await get(this.path("/report"));
      this.took = performance.now() - this.loaded;
      if (request === this.request) this.show(found);
    } catch (error) {
      if (request !== this.request) return;
      $("host-parts").hidden = true;
      const more = error.status === 404 ? " Its URLs, if it has any, wait in the front queues." : "";
      setText($("host-note"), error.message + more);
      this.failed(error);
    }
  }

  path(more = "") {
    return `/hosts/${encodeURIComponent(this.name)}${more}`;
  }

  show(found) {
    const { host } = found;
    const first = this.shown === null;
    this.shown = host;
    setText($("host-note"), "");
    $("host-parts").hidden = false;
    const state = stateNow(host);
    $("host-life").replaceChildren(lifeBadge(state));
    $("host-why").replaceChildren(...found.why.map((text) => h("li", {}, text)));
    facts($("host-clock"), [
      ["next contact", nextContact(host)],
      ["delay", `${span(found.delay.delay_s)} (${words(found.delay.cause)}: ${found.delay.detail})`],
      ["in flight", count(host.in_flight)],
      ["waiting", count(host.waiting)],
      ["pages crawled", count(host.pages)],
      ["overloads", count(found.overloads)],
      ["failures in a row", count(found.failures)],
      ["HOST_RULES", Object.entries(found.rule).map(([name, value]) => `${name} ${value}`).join(", ") || "none"],
    ]);
    bars($("host-queues"), queueBars(found.waiting_by_queue, "s2"));
    const urls = found.next_urls.map((url) => h("li", {}, h("a", { href: `#url/${encodeURIComponent(url)}` }, url)));
    $("host-urls").replaceChildren(...(urls.length ? urls : [h("li", { class: "nothing" }, "No URL waits in its back queues.")]));
    bars($("host-errors"), found.dead.map((one) => [words(one.reason), one.count, "s4"]), "None of its URLs was given up.");
    this.showRobots(found.robots);
    this.showDns(found.dns);
    const stopped = ["blocked", "excluded"].includes(state);
    setText($("host-block"), stopped ? "Unblock" : "Block");
    if (first) for (const [id, name] of Object.entries(ORDERS)) $(id).value = host[name] ?? "";
  }

  showRobots({ files, user_agent: agent }) {
    const key = JSON.stringify(files.map((file) => [file.url, file.fetched_at.slice(0, 19), file.state]));
    $("robots-forget").disabled = !files.length;
    if (key === this.robots) return;
    this.robots = key;
    const shown = files.map((file) => {
      const text = { rules: "", no_rules: "It is empty or missing: all is allowed.", forbidden: "It was answered by 401 or 403.", unreachable: "There is no usable answer: its URLs wait.", expired: "There was no usable answer; the next URL fetches it again." }[file.state];
      const list = h("dl", { class: "facts wide" });
      facts(list, [
        ["state", words(file.state)],
        ["status", file.status ?? NONE],
        ["fetched", ago(file.fetched_at)],
        ["used until", day(file.expires)],
        ["Crawl-delay", file.crawl_delay_s === null ? NONE : span(file.crawl_delay_s)],
        [`/ for ${agent}`, file.allows_root === null ? NONE : file.allows_root ? "allowed" : "forbidden"],
        ["reason", file.reason],
      ], true);
      return h("div", { class: "robots" }, h("h4", {}, file.url), list, text ? h("p", { class: "muted" }, text) : null, lines(file, agent));
    });
    $("host-robots").replaceChildren(...(shown.length ? shown : [h("p", { class: "nothing" }, "None is cached; its next URL fetches it.")]));
  }

  showDns(dns) {
    $("dns-forget").disabled = dns.cached_in !== "redis";
    facts($("host-dns"), [
      ["state", badge(words(dns.state), dns.state === "no_such_host" ? "bad" : "")],
      ["addresses", dns.addresses.join(", ")],
      ["asked again in", dns.ttl_s === null ? "" : span(dns.ttl_s)],
      ["usable for", dns.usable_s === null ? "" : span(dns.usable_s)],
    ], true);
  }

  async toggle() {
    // A host that the crawl has not met may be blocked, too.
    const stopped = ["blocked", "excluded"].includes(this.shown?.state);
    if (await (stopped ? unblock : block)(this.name, this.failed)) await this.load();
  }

  async order() {
    const number = (text) => (text.trim() === "" ? null : Number(text));
    const orders = Object.fromEntries(Object.entries(ORDERS).map(([id, name]) => [name, number($(id).value)]));
    const changed = Object.fromEntries(Object.entries(orders).filter(([name, value]) => value !== this.shown[name]));
    if (!Object.keys(changed).length) toast("Nothing was changed.");
    else if (await order(this.name, changed, `Saved for ${this.name}.`, this.failed)) await this.load();
  }

  async purge() {
    const text = `All waiting URLs of ${this.name} are dropped. Links to it that are found later are crawled again.`;
    if (!(await confirm("Drop waiting URLs", text, "Drop"))) return;
    await this.act(async () => toast(`${count((await call("DELETE", this.path("/queue"))).dropped)} URLs dropped.`));
  }

  forget(what, done) {
    return this.act(async () => {
      await call("DELETE", this.path(`/${what}`));
      toast(done);
    });
  }

  async act(work) {
    try {
      await work();
      await this.load();
    } catch (error) {
      this.failed(error, true);
    }
  }
}

// The file as text, with the lines that apply to this crawler marked.
function lines(file, agent) {
  if (!file.text) return null;
  const applies = new Set(file.applies);
  const rows = file.text.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n").map((text, i) => h(applies.has(i + 1) ? "mark" : "span", {}, `${text}\n`));
  const label = `robots.txt; the marked lines apply to ${agent}`;
  return h("div", {}, h("p", { class: "muted" }, "The marked lines apply to this crawler."), h("pre", { class: "source", tabindex: "0", role: "region", "aria-label": label }, ...rows));
}
