// The figures at a glance: tiles, charts, bars and facts.

import { Chart } from "./chart.js";
import { get } from "./api.js";
import { $, h, setText } from "./dom.js";
import { bars, facts, queueBars, stateBadge } from "./figures.js";
import { bytes, clock, count, ms, NONE, percent, rate, span, words } from "./format.js";
import { slower } from "./slower.js";
import { word } from "./words.js";
import { SILENT_S } from "./workers.js";

const TILES = [
  ["pages", "pages crawled"],
  ["rate", "pages/s"],
  ["waiting", "waiting"],
  ["end", "estimated end"],
  ["workers", "processes"],
  ["success", "success"],
  ["dead", "given up"],
];
const HOSTS = [
  ["ready", "ready", "s2"],
  ["in_flight", "in flight", "s1"],
  ["resting", "resting", "s5"],
  ["blocked", "blocked", "s3"],
  ["excluded", "excluded", "s4"],
];
const BARS = 7;
const RANGES = [15, 120, 1440];
// A day changes slowly, and is not sent by itself.
const DAY_MS = 30000;

export class Overview {
  constructor() {
    this.tiles = Object.fromEntries(TILES.map(([name, title]) => [name, this.tile(title)]));
    this.rates = new Chart($("rate-chart"), { bars: true, format: rate, label: "pages/s over time" });
    this.latency = new Chart($("latency-chart"), { format: ms, label: "Times over time" });
    this.kind = "fetch";
    this.stores = [];
    this.range = RANGES[0];
    this.day = null;
    this.dayAt = -Infinity;
    this.facts({});
    for (const range of RANGES) $(`range-${range}`).addEventListener("click", () => this.chooseRange(range));
    for (const kind of ["fetch", "parse"]) {
      $(`latency-${kind}`).addEventListener("click", () => this.choose(kind));
    }
  }

  tile(title) {
    const value = h("dd", {}, "–");
    const note = h("dd", { class: "note" }, "\u00a0");
    $("tiles").append(h("div", { class: "tile" }, h("dt", {}, word(title)), value, note));
    return (text, more = "") => {
      setText(value, text);
      setText(note, more || "\u00a0");
    };
  }

  chooseRange(range) {
    this.range = range;
    for (const each of RANGES) $(`range-${each}`).setAttribute("aria-pressed", String(each === range));
    this.draw();
  }

  async draw() {
    if (!this.vitals) return;
    if (this.range > 120 && performance.now() - this.dayAt > DAY_MS) {
      this.dayAt = performance.now();
      this.day = (await get("/vitals", { minutes: this.range }).catch(() => null))?.minutes ?? this.day;
    }
    this.drawRates();
    this.drawLatency();
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
    this.tiles.pages(count(status.pages), `${count(status.found)} URLs found`);
    this.tiles.rate(live.length ? rate(speed) : NONE, live.length ? `${bytes(received)} a second` : "no process works on it");
    this.tiles.waiting(count(status.waiting), `${count(status.leased)} leased, ${count(status.retries)} to retry`);
    this.tiles.workers(count(live.length), live.length ? machines(live, silent) : "none");
    this.tiles.dead(count(status.dead), status.dead ? "dead letters" : "none");
    bars($("queues"), [
      ...queueBars(status.waiting_by_queue),
      ["back", status.waiting_by_host, "s2"],
      ["to retry", status.retries, "s3"],
      ...(status.recrawls ? [["to recrawl", status.recrawls, "s5"]] : []),
    ]);
    this.stores = live.map((worker) => worker.about.store ?? "off");
    this.memory = status.memory_share ? `${bytes(status.memory_bytes)}, ${percent(status.memory_share)}` : bytes(status.memory_bytes);
  }

  // What is known every few seconds.
  figures(vitals) {
    this.vitals = vitals;
    const { totals, hour } = vitals;
    this.tiles.success(percent(hour.success_rate), `last hour: ${count(hour.failed)} failed, ${count(hour.retries)} retries`);
    const { ends_in_s: left, why } = vitals.estimate;
    this.tiles.end(left === null ? NONE : `in ${span(left)}`, why);
    bars($("codes"), Object.entries(hour.statuses).sort((a, b) => b[1] - a[1]).slice(0, BARS).map(([code, n]) => [code, n, codeKind(code)]), "No response in the last hour");
    bars($("errors"), hour.errors.slice(0, BARS).map((one) => [words(one.cause), one.retried + one.failed + one.blocked, one.failed ? "s4" : one.blocked ? "s5" : "s3"]), "No failure in the last hour");
    bars($("host-states"), HOSTS.map(([state, name, kind]) => [name, vitals.hosts[state], kind]));
    this.facts(totals, hour.waits);
    this.draw();
  }

  // The lists of facts; without figures they have dashes, so that nothing jumps later.
  facts(totals, waits) {
    const sum = (counts) => counts && Object.values(counts).reduce((all, n) => all + n, 0);
    const { robots, store, dns, duplicates } = totals;
    const known = (counts, name) => (counts ? (counts[name] ?? 0) : null);
    facts($("content"), [
      ["links found", count(totals.links_found)],
      ["new URLs", count(totals.links_new)],
      ["links not followed", count(sum(totals.links_refused))],
      ["exact duplicates", count(known(duplicates, "exact"))],
      ["near duplicates", count(known(duplicates, "near"))],
      ["rendered", count(totals.rendered)],
      ["received", bytes(totals.bytes)],
    ]);
    facts($("politeness"), [
      ["denied by robots.txt", count(known(robots, "denied"))],
      ["robots.txt fetched", count(known(robots, "fetched"))],
      ["put off for robots.txt", count(known(robots, "deferred"))],
      ["delays", count(sum(waits))],
      ["delays for overload", count(waits && known(waits, "overload") + known(waits, "retry_after"))],
      ["names looked up", count(known(dns, "misses"))],
    ]);
    facts($("storage"), [
      ["store", storeBadge(this.stores)],
      ["pages stored", count(known(store, "pages"))],
      ["records written", count(known(store, "records"))],
      ["content", bytes(known(store, "bytes"))],
      ["Redis memory", this.memory ?? NONE],
    ]);
  }

  window() {
    if (this.range > 120) return this.day ?? [];
    return this.vitals.minutes.slice(-this.range);
  }

  drawRates() {
    const minutes = this.window();
    const last = minutes.at(-1);
    // What runs counts as far as it is over.
    const spans = minutes.map((minute) => (minute === last ? Math.min(minute.seconds, Math.max(5, (this.serverNow ?? last.at + 60) - last.at)) : minute.seconds));
    const series = [
      { name: "crawled", kind: "s1", values: minutes.map((minute, i) => minute.pages / spans[i]) },
      { name: "failed", kind: "s4", values: minutes.map((minute, i) => minute.failed / spans[i]) },
    ];
    const nothing = minutes.every((minute) => !minute.pages && !minute.failed);
    this.rates.set(minutes.map((minute) => minute.at), nothing ? [] : series);
    legend($("rate-legend"), series.map((one) => [one.name, one.kind, rate(one.values.at(-1))]));
    const found = slower(minutes.slice(0, -1).map((minute) => minute.pages / minute.seconds));
    const since = found && `Slower since ${clock(minutes[found.at].at)}: ${rate(found.after)} pages/s after ${rate(found.before)}.`;
    setText($("slower"), nothing ? "Nothing was crawled in this time." : since || "No slower than before in this time.");
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
  if (!stores.length) return stateBadge("", "no process");
  return stores.includes("ok") ? stateBadge("ok") : stateBadge("off");
}

function legend(place, entries) {
  place.replaceChildren(...entries.map(([name, kind, value]) => h("span", {}, h("span", { class: `key ${kind}` }), `${name} ${value}`)));
}

