// The table of hosts: search, order, block.

import { call, get } from "./api.js";
import { $, ask, h, replaceRows, setText, toast } from "./dom.js";
import { lifeBadge } from "./figures.js";
import { count, NONE, span, until } from "./format.js";

const LIMIT = 10;
const TYPING_MS = 250;
// Answers about hosts cost Redis something, so they are repeated the less often the longer they took.
const AGAIN = 50;
const AGAIN_LEAST_MS = 4000;

export const againMs = (took) => Math.max(AGAIN_LEAST_MS, AGAIN * took);

export class Hosts {
  constructor(failed) {
    this.failed = failed;
    this.offset = 0;
    this.request = 0;
    this.loaded = -Infinity;
    this.took = 0;
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
    if (document.activeElement === $("host-search")) return;
    if (performance.now() - this.loaded > againMs(this.took)) this.load();
  }

  async load() {
    const request = (this.request += 1);
    this.loaded = performance.now();
    const search = $("host-search").value.trim();
    const state = $("host-state").value;
    try {
      const found = await get("/hosts", { search, state, sort: $("host-sort").value, offset: this.offset, limit: LIMIT });
      this.took = performance.now() - this.loaded;
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
    const state = stateNow(host);
    const stopped = ["blocked", "excluded"].includes(state);
    const left = host.blocked_until ? ` for ${span(until(host.blocked_until))}` : "";
    return h(
      "tr",
      {},
      h("td", { class: "url" }, h("a", { href: `#host/${encodeURIComponent(host.host)}`, title: host.host }, host.host)),
      h("td", {}, lifeBadge(state, left)),
      h("td", { class: "number" }, count(host.waiting)),
      h("td", { class: "number" }, count(host.pages)),
      h("td", { class: "number" }, span(host.delay_s ?? host.usual_delay_s)),
      h("td", { class: "number" }, nextContact(host)),
      h(
        "td",
        { class: "action" },
        h(
          "button",
          {
            type: "button",
            class: "small",
            "data-host": host.host,
            "data-write": true,
            "aria-label": `${stopped ? "Unblock" : "Block"} ${host.host}`,
            onclick: () => (stopped ? this.unblock(host.host) : this.block(host.host)),
          },
          stopped ? "Unblock" : "Block",
        ),
      ),
    );
  }

  async block(host) {
    if (await block(host, this.failed)) await this.load();
  }

  async unblock(host) {
    if (await unblock(host, this.failed)) await this.load();
  }
}

// A host whose delay ended since the server said so is ready.
export const stateNow = (host) => (host.state === "resting" && !(until(host.next_contact) > 0.05) ? "ready" : host.state);

export function nextContact(host) {
  const state = stateNow(host);
  if (state === "ready") return "now";
  const left = until(host.blocked_until ?? host.next_contact);
  return ["resting", "blocked"].includes(state) && left > 0 ? `in ${span(left)}` : NONE;
}

// Ask for how long, and block a host; resolves to whether that was done.
export async function block(host, failed) {
  setText($("block-host"), host);
  if (!(await ask($("block-dialog")))) return false;
  const time = $("block-time").value;
  const end = new Date(Date.now() + Number(time) * 1000).toISOString();
  return order(host, time === "exclude" ? { excluded: true } : { blocked_until: end }, `${host} is blocked.`, failed);
}

export const unblock = (host, failed) => order(host, { blocked_until: null, excluded: false }, `${host} is crawled again.`, failed);

export async function order(host, orders, done, failed) {
  try {
    await call("PATCH", `/hosts/${encodeURIComponent(host)}`, orders);
    toast(done);
    return true;
  } catch (error) {
    failed(error, true);
    return false;
  }
}
