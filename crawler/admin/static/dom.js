// Make and change elements. Texts are always set as text: nothing of the web becomes markup.

const TOASTS = 2;
const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(nodeOf));
  return element;
}

const nodeOf = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function setText(element, text) {
  // Only what changed: a screen reader and a selection are left in peace.
  if (element.textContent !== text) element.textContent = text;
}

export function replaceRows(body, rows, columns, nothing) {
  // On a phone, cells stand below each other, each with its title.
  const titles = [...body.closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of rows) [...row.cells].forEach((cell, i) => cell.setAttribute("data-title", titles[i]));
  body.replaceChildren(...(rows.length ? rows : [h("tr", {}, h("td", { class: "empty", colspan: columns }, nothing))]));
}

export function toast(text, kind = "") {
  const element = h("div", { class: `toast ${kind}` }, text);
  while ($("toasts").children.length >= TOASTS) $("toasts").firstElementChild.remove();
  $("toasts").append(element);
  setTimeout(() => element.remove(), kind === "bad" ? 9000 : 5000);
}

// Ask with a dialog; resolves to whether it was confirmed.
export function ask(dialog) {
  return new Promise((resolve) => {
    dialog.returnValue = "cancel";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true });
    dialog.showModal();
  });
}

export function confirm(title, text, action) {
  setText($("confirm-title"), title);
  setText($("confirm-text"), text);
  setText($("confirm-ok"), action);
  return ask($("confirm-dialog"));
}
