// The last events of the crawl: orders, processes, warnings, errors.

import { get } from "./api.js";
import { $, h, replaceRows } from "./dom.js";
import { badge } from "./figures.js";
import { day } from "./format.js";

const KINDS = { order: "", process: "good", warning: "warn", error: "bad" };

export class Log {
  constructor(failed) {
    this.failed = failed;
    $("log-kind").addEventListener("change", () => this.show(this.events ?? []));
  }

  open() {
    return this.refresh();
  }

  async refresh() {
    try {
      this.events = await get("/log");
      this.show(this.events);
    } catch (error) {
      replaceRows($("log-rows"), [], 3, error.message);
      this.failed(error);
    }
  }

  show(events) {
    const kind = $("log-kind").value;
    const rows = events
      .filter((event) => !kind || event.kind === kind)
      .map((event) => h("tr", {}, h("td", { class: "time" }, day(event.at)), h("td", {}, badge(event.kind, KINDS[event.kind])), h("td", { class: "told" }, event.text)));
    replaceRows($("log-rows"), rows, 3, "Nothing happened yet.");
  }
}
