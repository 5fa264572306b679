// The box for seeds: what became of each URL, and where it is now.

import { call, get } from "./api.js";
import { $, h, setText, toast } from "./dom.js";
import { count, words } from "./format.js";

const WATCHED = 20;
const LOOK_MS = 2000;
const LOOKS = 150;
const KINDS = { added: "good", known: "", rejected: "bad" };

export class Seeds {
  constructor(failed) {
    this.failed = failed;
    this.watch = 0;
    $("seed-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    $("seed-urls").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.add();
    });
  }

  async add() {
    const urls = $("seed-urls").value.split(/\s+/).filter(Boolean);
    if (!urls.length) {
      toast("Give at least one URL.", "bad");
      $("seed-urls").focus();
      return;
    }
    try {
      this.show(await call("POST", "/seed/urls", urls));
      $("seed-urls").value = "";
    } catch (error) {
      this.failed(error, true);
    }
  }

  show(answer) {
    const text = `${count(answer.added)} added, ${count(answer.known)} known, ${count(answer.rejected)} rejected`;
    setText($("seed-summary"), text);
    toast(`Seeds: ${text}.`);
    const cells = [];
    const rows = answer.urls.map((one) => {
      const now = h("td", {}, one.state === "rejected" ? "–" : "…");
      if (one.state !== "rejected" && cells.length < WATCHED) cells.push([one.url, now]);
      return h(
        "tr",
        {},
        h("td", { class: "url", title: one.given }, one.url || one.given),
        h("td", {}, h("span", { class: `badge ${KINDS[one.state]}` }, one.state), one.detail || one.reason ? ` ${one.detail || words(one.reason)}` : ""),
        now,
      );
    });
    $("seed-rows").replaceChildren(...rows);
    $("seed-answers").hidden = false;
    this.follow(cells, (this.watch += 1));
  }

  // Look every two seconds where the URLs are, until they are fetched or others are added.
  async follow(cells, watch) {
    for (let look = 0; look < LOOKS && cells.length && watch === this.watch; look += 1) {
      const found = await Promise.all(cells.map(([url]) => get("/urls", { url }).catch(() => null)));
      found.forEach((state, i) => state && cells[i][1].replaceChildren(badge(state)));
      cells = cells.filter((_, i) => !(found[i] && isOver(found[i])));
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}

// One that is known is done, or so far back in a queue that nobody looked there.
const isOver = (state) => state.page !== null || state.state === "dead";

function badge(state) {
  if (state.state === "dead") return h("span", { class: "badge bad" }, `given up: ${words(state.reason)}`);
  if (state.page) return h("span", { class: "badge good" }, `fetched: ${state.page.status ?? "done"}`);
  const names = { known: "done or waiting", leased: "being fetched", delayed: "put off", unseen: "not known" };
  return h("span", { class: "badge" }, names[state.state] ?? state.state);
}
