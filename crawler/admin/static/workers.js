// The processes of the crawl.

import { $, h, replaceRows } from "./dom.js";
import { count, ms, rate, span } from "./format.js";
import { stateBadge } from "./sinks.js";

const SHARDS_SHOWN = 8;
const COLUMNS = 10;

// Five beats.
export const SILENT_S = 10;

export function showWorkers(status, silent) {
  const now = Date.parse(status.at) / 1000;
  const number = (text) => h("td", { class: "number" }, text);
  const rows = status.workers.map((worker) => {
    const { about } = worker;
    return h(
      "tr",
      {},
      h("td", {}, worker.machine || worker.id, quiet(silent.get(worker.id))),
      number(String(worker.pid || "–")),
      number(rate(about.pages_per_s ?? 0)),
      number(count(worker.pages)),
      number(count(worker.held)),
      h("td", {}, shards(worker.shards)),
      number(ms(about.loop_lag_ms)),
      number(ms(about.redis_ms)),
      h("td", {}, stateBadge(about.store ?? "off")),
      number(about.started_at ? span(now - about.started_at) : "–"),
    );
  });
  replaceRows($("worker-rows"), rows, COLUMNS, "No process works on this crawl now. Start one: scrapy crawl web");
}

const quiet = (seconds) => (seconds > SILENT_S ? h("span", { class: "badge bad aside" }, `silent for ${span(seconds)}`) : null);

export const noWorkers = (text) => replaceRows($("worker-rows"), [], COLUMNS, text);

function shards(list) {
  const shown = list.slice(0, SHARDS_SHOWN).join(", ");
  return list.length > SHARDS_SHOWN ? `${shown} … (${list.length})` : shown || "–";
}
