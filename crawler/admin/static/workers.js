// The processes of the crawl: what each does, and stop one.

import { call } from "./api.js";
import { $, confirm, h, replaceRows, toast } from "./dom.js";
import { stateBadge } from "./figures.js";
import { count, ms, rate, span } from "./format.js";

const SHARDS_SHOWN = 8;
const COLUMNS = 11;

// Five beats.
export const SILENT_S = 10;

const stopping = new Set();

export function showWorkers(status, silent, failed) {
  const now = Date.parse(status.at) / 1000;
  const number = (text) => h("td", { class: "number" }, text);
  const focused = document.activeElement?.closest?.("#worker-rows button")?.dataset.id;
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
      h("td", { class: "action" }, stopButton(worker, failed)),
    );
  });
  replaceRows($("worker-rows"), rows, COLUMNS, "No process works on this crawl now. Start one: scrapy crawl web");
  if (focused) $("worker-rows").querySelector(`button[data-id="${CSS.escape(focused)}"]`)?.focus();
}

function stopButton(worker, failed) {
  const name = `${worker.machine || worker.id} ${worker.pid || ""}`.trim();
  const attributes = { type: "button", class: "small", "data-write": true, "data-id": worker.id, "aria-label": `Stop ${name}`, disabled: stopping.has(worker.id) };
  return h("button", { ...attributes, onclick: () => stop(worker.id, name, failed) }, stopping.has(worker.id) ? "Stopping …" : "Stop");
}

async function stop(id, name, failed) {
  const text = `Fetches of ${name} in flight finish, what else it holds goes back to the frontier, and it ends. The crawl goes on in other processes.`;
  if (!(await confirm("Stop a process", text, "Stop"))) return;
  try {
    await call("POST", `/workers/${encodeURIComponent(id)}/stop`);
    stopping.add(id);
    toast(`${name} stops: what is in flight finishes.`);
  } catch (error) {
    failed(error, true);
  }
}

const quiet = (seconds) => (seconds > SILENT_S ? h("span", { class: "badge bad aside" }, `silent for ${span(seconds)}`) : null);

export const noWorkers = (text) => replaceRows($("worker-rows"), [], COLUMNS, text);

function shards(list) {
  const shown = list.slice(0, SHARDS_SHOWN).join(", ");
  return list.length > SHARDS_SHOWN ? `${shown} … (${list.length})` : shown || "–";
}
