// The options of the crawl: what it follows and how much, with the checks of the API.

import { call, get } from "./api.js";
import { $, h, setText, toast } from "./dom.js";

const CHOICES = { scope: ["host", "domain", "seeds", "any"], follow: ["true", "false"] };

export class Options {
  constructor(failed) {
    this.failed = failed;
    $("option-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
  }

  async open() {
    setText($("option-error"), "");
    try {
      this.show(await get("/options"));
    } catch (error) {
      setText($("option-error"), error.message);
      this.failed(error);
    }
  }

  show(options) {
    this.options = options;
    $("option-rows").replaceChildren(...options.map((option) => this.row(option)));
    $("option-save").disabled = false;
  }

  row(option) {
    const id = `option-${option.name}`;
    const usual = shown(option.default) || "none";
    return h(
      "div",
      { class: option.is_set ? "option set" : "option" },
      h("label", { for: id }, h("code", {}, option.name)),
      field(option, id),
      h("p", { class: "muted", id: `${id}-about` }, `${option.meaning}. Default: ${usual}`),
    );
  }

  async save() {
    setText($("option-error"), "");
    const changed = {};
    for (const option of this.options) {
      const text = $(`option-${option.name}`).value.trim();
      if (text !== shown(option.value)) changed[option.name] = given(option, text);
    }
    if (!Object.keys(changed).length) {
      toast("Nothing was changed.");
      return;
    }
    try {
      this.show(await call("PATCH", "/options", changed));
      toast(`Saved: ${Object.keys(changed).join(", ")}. All processes follow within 2 s.`);
    } catch (error) {
      setText($("option-error"), error.message);
      this.failed(error);
    }
  }
}

function field(option, id) {
  const more = { id, "aria-describedby": `${id}-about` };
  const value = shown(option.value);
  if (option.name in CHOICES) {
    const choices = CHOICES[option.name].map((one) => h("option", { value: one, selected: one === value }, one === "true" ? "yes" : one === "false" ? "no" : one));
    return h("select", more, ...choices);
  }
  const isNumber = typeof option.default === "number";
  return h("input", { ...more, value, spellcheck: "false", autocomplete: "off", inputmode: isNumber ? "numeric" : null });
}

// Lists as words, budgets as JSON.
function shown(value) {
  if (Array.isArray(value)) return value.join(" ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? "");
}

// An empty field is for the default; a list that is not empty by default may be made empty.
function given(option, text) {
  if (text === "") return Array.isArray(option.default) && !option.default.length ? [] : null;
  if (typeof option.default === "boolean") return text === "true";
  return typeof option.default === "number" && /^-?\d+$/.test(text) ? Number(text) : text;
}
