// The figures at a glance: tiles, charts, bars and facts.

import { Chart } from "./chart.js";
import { $, h, setText } from "./dom.js";
import { bytes, count, ms, NONE, percent, rate, words } from "./format.js";
import { stateBadge } from "./sinks.js";
import { SILENT_S } from "./workers.js";

const TILES = [
  ["pages", "Pages crawled"],
  ["rate", "Pages a second"],
  ["waiting", "URLs waiting"],
  ["workers", "Workers"],
  ["success", "Success, last hour"],
  ["dead", "Dead letters"],
];
const HOSTS = [
  ["ready", "ready", "s2"],
  ["in_flight", "busy", "s1"],
  ["resting", "resting", "s5"],
  ["blocked", "blocked", "s3"],
  ["excluded", "excluded", "s4"],
];
// The charts begin where the crawl did, and show ten minutes at least.
const LEAST_MINUTES = 10;
const BARS = 7;

export class Overview {
  constructor() {
    this.tiles = Object.fromEntries(TILES.map(([name, title]) => [name, this.tile(title)]));
    this.rates = new Chart($("rate-chart"), { bars: true, format: rate, label: "Pages a second over time" });
    this.latency = new Chart($("latency-chart"), { format: ms, label: "Latency over time" });
    this.kind = "fetch";
    this.stores = [];
    this.facts({});
    for (const kind of ["fetch", "parse"]) {
      $(`latency-${kind}`).addEventListener("click", () => this.choose(kind));
    }
  }

  tile(title) {
    const value = h("dd", {}, "–");
    const note = h("dd", { class: "note" }, "\u00a0");
    $("tiles").append(h("div", { class: "tile" }, h("dt", {}, title), value, note));
    return (text, more = "") => {
      setText(value, text);
      setText(note, more || "\u00a0");
    };
  }

  choose(kind) {
    this.kind = kind;
    for (const each of ["fetch", "parse"]) $(`latency-${each}`).setAttribute("aria-pressed", String(each === kind));
    if (this.vitals) this.drawLatency();
  }

  // What is known each second.
  status(status, silent) {
    const live = status.workers;
    const speed = live.reduce((sum, worker) => sum + (worker.about.pages_per_s ?? 0), 0);
    const received = live.reduce((sum, worker) => sum + (worker.about.bytes_per_s ?? 0), 0);
    this.serverNow = Date.parse(status.at) / 1000;
    this.tiles.pages(count(status.pages), `${percent(this.vitals?.totals.success_rate)} success rate`);
    this.tiles.rate(rate(speed), `${bytes(received)} a second`);
    this.tiles.waiting(count(status.waiting), `${count(status.leased)} leased, ${count(status.retries)} to retry`);
    this.tiles.workers(count(live.length), live.length ? machines(live, silent) : "no process runs");
    this.tiles.dead(count(status.dead), status.dead ? "see below" : "none");
    bars($("queues"), [
      ...status.waiting_by_queue
        .map((waiting, i) => [["F1", "F2", "F3", "F4", "F5", "documents", "media"][i], waiting, "s1"])
        .filter(([, waiting], i) => i < 5 || waiting),
      ["by host", status.waiting_by_host, "s2"],
      ["to retry", status.retries, "s3"],
    ]);
    this.stores = live.map((worker) => worker.about.store ?? "off");
    this.memory = status.memory_share;
  }

  // What is known every few seconds.
  figures(vitals) {
    this.vitals = vitals;
    const { totals, hour } = vitals;
    this.tiles.success(percent(hour.success_rate), `${count(hour.failed)} failed, ${count(hour.retries)} tried again`);
    bars($("codes"), Object.entries(hour.statuses).sort((a, b) => b[1] - a[1]).slice(0, BARS).map(([code, n]) => [code, n, codeKind(code)]), "No response in the last hour");
    bars($("errors"), hour.errors.slice(0, BARS).map((one) => [words(one.cause), one.retried + one.failed + one.blocked, one.failed ? "s4" : one.blocked ? "s5" : "s3"]), "No error in the last hour");
    bars($("host-states"), HOSTS.map(([state, name, kind]) => [name, vitals.hosts[state], kind]));
    this.facts(totals, hour.waits);
    this.drawRates();
    this.drawLatency();
  }

  // The lists of facts; without figures they have dashes, so that nothing jumps later.
  facts(totals, waits) {
    const sum = (counts) => counts && Object.values(counts).reduce((all, n) => all + n, 0);
    const { robots, store, dns, duplicates } = totals;
    const known = (counts, name) => (counts ? (counts[name] ?? 0) : null);
    facts($("content"), [
      ["Links found", count(totals.links_found)],
      ["New URLs", count(totals.links_new)],
      ["Links not followed", count(sum(totals.links_refused))],
      ["Exact duplicates", count(known(duplicates, "exact"))],
      ["Near duplicates", count(known(duplicates, "near"))],
      ["Received", bytes(totals.bytes)],
    ]);
    facts($("manners"), [
      ["Denied by robots.txt", count(known(robots, "denied"))],
      ["robots.txt fetched", count(known(robots, "fetched"))],
      ["Put off for robots.txt", count(known(robots, "deferred"))],
      ["Rests, last hour", count(sum(waits))],
      ["Rests for overload, last hour", count(waits && known(waits, "overload") + known(waits, "retry_after"))],
      ["Names looked up", count(known(dns, "misses"))],
    ]);
    facts($("storage"), [
      ["State", storeBadge(this.stores)],
      ["Pages stored", count(known(store, "pages"))],
      ["Records written", count(known(store, "records"))],
      ["Content", bytes(known(store, "bytes"))],
      ["Redis memory", this.memory === undefined ? NONE : this.memory ? percent(this.memory) : "no limit set"],
    ]);
  }

  window() {
    const minutes = this.vitals.minutes;
    const first = minutes.findIndex((minute) => minute.pages || minute.not_modified || minute.retries || minute.failed);
    const shown = Math.max(LEAST_MINUTES, first < 0 ? 0 : minutes.length - first + 1);
    return minutes.slice(-shown);
  }

  drawRates() {
    const minutes = this.window();
    const last = minutes.at(-1);
    // The minute that runs counts as far as it is over.
    const spans = minutes.map((minute) => (minute === last ? Math.min(60, Math.max(5, (this.serverNow ?? last.at + 60) - last.at)) : 60));
    const series = [
      { name: "crawled", kind: "s1", values: minutes.map((minute, i) => minute.pages / spans[i]) },
      { name: "failed", kind: "s4", values: minutes.map((minute, i) => minute.failed / spans[i]) },
    ];
    const nothing = minutes.every((minute) => !minute.pages && !minute.failed);
    this.rates.set(minutes.map((minute) => minute.at), nothing ? [] : series);
    legend($("rate-legend"), series.map((one) => [one.name, one.kind, rate(one.values.at(-1))]));
  }

  drawLatency() {
    const minutes = this.window();
    const key = `${this.kind}_ms`;
    const series = [["p50", "s1"], ["p95", "s3"], ["p99", "s4"]].map(([name, kind]) => ({ name, kind, values: minutes.map((minute) => minute[key][name]) }));
    this.latency.set(minutes.map((minute) => minute.at), series);
    const now = this.vitals.hour[key];
    legend($("latency-legend"), series.map((one) => [one.name, one.kind, ms(now[one.name])]));
  }

  // Said where there are no figures (yet).
  nothing(text) {
    for (const id of ["queues", "host-states", "codes", "errors"]) {
      if (!$(id).querySelector(".bar")) $(id).replaceChildren(h("p", { class: "nothing" }, text));
    }
  }
}

const machines = (workers, silent) => {
  const names = new Set(workers.map((worker) => worker.machine));
  const quiet = workers.filter((worker) => silent.get(worker.id) > SILENT_S).length;
  if (quiet) return `${quiet} silent`;
  return names.size === 1 ? `on ${[...names][0]}` : `on ${names.size} machines`;
};

const codeKind = (code) => ({ 2: "s2", 3: "s5", 4: "s3", 5: "s4" })[code[0]] ?? "s1";

export function storeBadge(stores) {
  const bad = stores.filter((state) => !["ok", "off"].includes(state));
  // Where pages wait, fetching pauses: that is worse than a spool.
  const worst = bad.includes("away") ? "away" : bad[0];
  const those = bad.filter((state) => state === worst).length;
  if (bad.length) return stateBadge(worst, those === stores.length ? worst : `${worst} for ${those} of ${stores.length}`);
  if (!stores.length) return stateBadge("", "no worker");
  return stores.includes("ok") ? stateBadge("ok", "works") : stateBadge("off");
}

function bars(place, entries, nothing = "Nothing yet") {
  const rows = entries.map(([, n]) => n);
  if (!rows.length) {
    place.replaceChildren(h("p", { class: "nothing" }, nothing));
    return;
  }
  const most = Math.max(...rows, 1);
  // Kept and changed in place, so that widths glide and nothing jumps.
  while (place.children.length > entries.length || place.querySelector(".nothing")) place.lastElementChild.remove();
  while (place.children.length < entries.length) {
    place.append(
      h("div", { class: "bar" }, h("span", { class: "name" }), h("span", { class: "track" }, h("span", { class: "fill" })), h("span", { class: "value" })),
    );
  }
  entries.forEach(([name, n, kind], i) => {
    const [label, track, value] = place.children[i].children;
    setText(label, name);
    label.title = name;
    setText(value, count(n));
    const fill = track.firstElementChild;
    fill.className = `fill ${kind}`;
    fill.style.width = n ? `${Math.max(2, (100 * n) / most)}%` : "0";
  });
}

function facts(place, entries) {
  if (place.children.length !== entries.length * 2) {
    place.replaceChildren(...entries.flatMap(([name]) => [h("dt", {}, name), h("dd", {})]));
  }
  entries.forEach(([, value], i) => {
    const cell = place.children[2 * i + 1];
    if (value instanceof Node) cell.replaceChildren(value);
    else setText(cell, value);
  });
}

function legend(place, entries) {
  place.replaceChildren(...entries.map(([name, kind, value]) => h("span", {}, h("span", { class: `key ${kind}` }), `${name} ${value}`)));
}

