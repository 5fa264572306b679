// How figures look: bars, lists of facts, badges. Kept and changed in place, so that nothing jumps.

import { h, setText } from "./dom.js";
import { count } from "./format.js";
import { word, WORDS } from "./words.js";

const KINDS = { ok: "good", away: "bad", spooling: "warn" };
const STATES = {
  ...{ ready: "good", in_flight: "good", blocked: "warn", excluded: "bad", known: "good", dead: "bad" },
  ...{ leased: "good", delayed: "warn", running: "good", paused: "warn", stopped: "bad" },
};

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

// The badge of a store or a sink, by its state.
export const stateBadge = (state, text = state) => badge(text, KINDS[state]);

// The badge of a crawl, a host or a URL.
export const lifeBadge = (state, more = "") => badge(state.replaceAll("_", " ") + more, STATES[state]);

// With its meaning, if it is one of the words.
export const named = (name) => (name in WORDS ? word(name) : name);

export function bars(place, entries, nothing = "Nothing yet") {
  if (!entries.length) {
    place.replaceChildren(h("p", { class: "nothing" }, nothing));
    return;
  }
  const most = Math.max(...entries.map(([, n]) => n), 1);
  while (place.children.length > entries.length || place.querySelector(".nothing")) place.lastElementChild.remove();
  while (place.children.length < entries.length) {
    place.append(
      h("div", { class: "bar" }, h("span", { class: "name" }), h("span", { class: "track" }, h("span", { class: "fill" })), h("span", { class: "value" })),
    );
  }
  entries.forEach(([name, n, kind], i) => {
    const [label, track, value] = place.children[i].children;
    if (label.textContent !== name) label.replaceChildren(named(name));
    setText(value, count(n));
    const fill = track.firstElementChild;
    fill.className = `fill ${kind}`;
    fill.style.width = n ? `${Math.max(2, (100 * n) / most)}%` : "0";
  });
}

// entries: [name, text or element]; those without a value are left out if `short`.
export function facts(place, entries, short = false) {
  const shown = short ? entries.filter(([, value]) => ![null, undefined, "", "–"].includes(value)) : entries;
  const names = shown.map(([name]) => name).join();
  if (place.dataset.names !== names) {
    place.dataset.names = names;
    place.replaceChildren(...shown.flatMap(([name]) => [h("dt", {}, named(name)), h("dd", {})]));
  }
  shown.forEach(([, value], i) => {
    const cell = place.children[2 * i + 1];
    if (value instanceof Node) cell.replaceChildren(value);
    else setText(cell, String(value));
  });
}

export const queueNames = ["F1", "F2", "F3", "F4", "F5", "docs", "media"];

// Waiting URLs by queue; those of types only if URLs wait in them.
export const queueBars = (sizes, kind = "s1") =>
  sizes.map((waiting, i) => [queueNames[i], waiting, kind]).filter(([, waiting], i) => i < 5 || waiting);
