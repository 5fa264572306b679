// Where the pages go: the state of each sink, and what is spooled.

import { $, h, replaceRows, setText } from "./dom.js";
import { stateBadge } from "./figures.js";
import { bytes, count, rate, span } from "./format.js";

const COLUMNS = 6;
export function showSinks({ sinks, spool, workers }) {
  const number = (text) => h("td", { class: "number" }, text);
  const rows = sinks.map((sink) =>
    h(
      "tr",
      {},
      h("td", {}, sink.name),
      h("td", {}, stateBadge(sink.state)),
      number(rate(sink.pages_per_s)),
      number(bytes(sink.bytes_per_s)),
      number(count(sink.waiting)),
      number(span(sink.lag_s)),
    ),
  );
  const nothing = workers.length ? "There is no sink: feeds or your own pipelines take the pages." : "No page was stored yet.";
  replaceRows($("sink-rows"), rows, COLUMNS, nothing);
  $("spooled").hidden = !spool.pages && !spool.places.length;
  const where = spool.places.length ? `in ${spool.places.join(", ")}` : "";
  const what = spool.pages ? `${count(spool.pages)} ${spool.pages === 1 ? "page" : "pages"}, ${bytes(spool.bytes)}` : "";
  setText($("spooled"), `spooled: ${[what, where].filter(Boolean).join(" ")}`);
}

export const noSinks = (text) => {
  replaceRows($("sink-rows"), [], COLUMNS, text);
  $("spooled").hidden = true;
};
