// What the token allows. Whoever may only look sees each control, that it is off, and why.

import { $, setText, toast } from "./dom.js";

// Controls that change something are marked with this attribute, wherever they are made.
const WRITES = "[data-write]";

let reason = "";

export function allow({ name, role }) {
  reason = role === "operate" ? "" : `The token “${name}” may look at everything and change nothing. Sign in with one that has the role operate.`;
  $("role").hidden = !reason;
  $("role").title = reason;
  setText($("role"), reason ? "read only" : "");
  document.querySelectorAll(WRITES).forEach(mark);
}

function mark(control) {
  if (reason) {
    control.setAttribute("aria-disabled", "true");
    control.setAttribute("aria-description", reason);
    control.title = reason;
  } else if (control.hasAttribute("aria-disabled")) {
    for (const name of ["aria-disabled", "aria-description", "title"]) control.removeAttribute(name);
  }
}

// Rows of tables are made anew all the time.
new MutationObserver(() => {
  if (reason) document.querySelectorAll(`${WRITES}:not([aria-disabled])`).forEach(mark);
}).observe(document.body, { childList: true, subtree: true });

// Before anybody else hears of it. Enter in a field clicks the button of its form.
document.addEventListener(
  "click",
  (event) => {
    if (!reason || !event.target.closest?.(WRITES)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    toast(reason, "bad");
  },
  true,
);
