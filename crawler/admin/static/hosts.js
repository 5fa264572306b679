// The table of hosts: search, order, block.

import { call, get } from "./api.js";
import { $, ask, h, replaceRows, setText, toast } from "./dom.js";
import { count, span } from "./format.js";

const LIMIT = 10;
const TYPING_MS = 250;
// The next hosts are cheap to list; a search looks through many, so it is repeated seldom.
const SEARCH_AGAIN_MS = 30000;
const KINDS = { ready: "good", in_flight: "good", resting: "", idle: "", blocked: "warn", excluded: "bad" };
const NAMES = { in_flight: "being fetched" };

export class Hosts {
  constructor(failed) {
    this.failed = failed;
    this.offset = 0;
    this.request = 0;
    this.loaded = -Infinity;
    $("host-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.first();
    });
    $("host-search").addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.first(), TYPING_MS);
    });
    for (const id of ["host-state", "host-sort"]) $(id).addEventListener("change", () => this.first());
    $("host-back").addEventListener("click", () => this.page(-LIMIT));
    $("host-next").addEventListener("click", () => this.page(LIMIT));
    replaceRows($("host-rows"), [], 7, "Loading …");
  }

  first() {
    this.offset = 0;
    return this.load();
  }

  page(by) {
    this.offset = Math.max(0, this.offset + by);
    return this.load();
  }

  // Keep what is shown up to date, unless somebody types.
  refresh() {
    const sought = $("host-search").value || $("host-state").value || $("host-sort").value !== "next";
    if (document.activeElement === $("host-search")) return;
    if (!sought || performance.now() - this.loaded > SEARCH_AGAIN_MS) this.load();
  }

  async load() {
    const request = (this.request += 1);
    this.loaded = performance.now();
    const search = $("host-search").value.trim();
    const state = $("host-state").value;
    try {
      const found = await get("/hosts", { search, state, sort: $("host-sort").value, offset: this.offset, limit: LIMIT });
      // An older answer may come later.
      if (request === this.request) this.show(found, search || state);
    } catch (error) {
      if (request !== this.request) return;
      replaceRows($("host-rows"), [], 7, error.message);
      this.failed(error);
    }
  }

  show(found, filtered) {
    const focused = document.activeElement?.closest?.("#host-rows button")?.dataset.host;
    replaceRows($("host-rows"), found.hosts.map((host) => this.row(host)), 7, filtered ? "No host fits." : "No host is known yet.");
    if (focused) $("host-rows").querySelector(`button[data-host="${CSS.escape(focused)}"]`)?.focus();
    const more = found.complete ? "" : " or more";
    const from = found.hosts.length ? found.offset + 1 : 0;
    setText($("host-count"), `${count(from)}–${count(found.offset + found.hosts.length)} of ${count(found.total)}${more}`);
    $("host-back").disabled = found.offset === 0;
    $("host-next").disabled = found.offset + found.hosts.length >= found.total;
  }

  row(host) {
    const due = host.next_contact ? (Date.parse(host.next_contact) - Date.now()) / 1000 : null;
    const stopped = ["blocked", "excluded"].includes(host.state);
    const until = host.blocked_until ? ` for ${span((Date.parse(host.blocked_until) - Date.now()) / 1000)}` : "";
    return h(
      "tr",
      {},
      h("td", { class: "url", title: host.host }, host.host),
      h("td", {}, h("span", { class: `badge ${KINDS[host.state] ?? ""}` }, (NAMES[host.state] ?? host.state) + until)),
      h("td", { class: "number" }, count(host.waiting)),
      h("td", { class: "number" }, count(host.pages)),
      h("td", { class: "number" }, span(host.delay_s ?? host.usual_delay_s)),
      h("td", { class: "number" }, host.state === "in_flight" ? "–" : due === null || due < 0.05 ? "now" : `in ${span(due)}`),
      h(
        "td",
        { class: "action" },
        h(
          "button",
          {
            type: "button",
            class: "small",
            "data-host": host.host,
            "aria-label": `${stopped ? "Unblock" : "Block"} ${host.host}`,
            onclick: () => (stopped ? this.unblock(host.host) : this.block(host.host)),
          },
          stopped ? "Unblock" : "Block",
        ),
      ),
    );
  }

  async block(host) {
    setText($("block-host"), host);
    if (!(await ask($("block-dialog")))) return;
    const time = $("block-time").value;
    const until = new Date(Date.now() + Number(time) * 1000).toISOString();
    await this.order(host, time === "exclude" ? { excluded: true } : { blocked_until: until }, `${host} is blocked.`);
  }

  unblock(host) {
    return this.order(host, { blocked_until: null, excluded: false }, `${host} is crawled again.`);
  }

  async order(host, orders, done) {
    try {
      await call("PATCH", `/hosts/${encodeURIComponent(host)}`, orders);
      toast(done);
      await this.load();
    } catch (error) {
      this.failed(error, true);
    }
  }
}
