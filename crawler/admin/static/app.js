// Sign in, listen to the crawl, and let each part of the page show what it is about.

import { allow } from "./access.js";
import { call, chosen, Events, get, Refused, token } from "./api.js";
import { Dead } from "./dead.js";
import { $, h, setText, toast } from "./dom.js";
import { count, serverTime } from "./format.js";
import { Host } from "./host.js";
import { Hosts } from "./hosts.js";
import { Log } from "./log.js";
import { Options } from "./options.js";
import { Overview } from "./overview.js";
import { Pages } from "./pages.js";
import { Search } from "./search.js";
import { Seeds } from "./seeds.js";
import { noSinks, showSinks } from "./sinks.js";
import { Urls } from "./urls.js";
import { explainWords } from "./words.js";
import { noWorkers, showWorkers } from "./workers.js";

const SLOW_MS = 5000;
const VIEWS = ["overview", "hosts", "host", "url", "pages", "dead", "processes", "options", "log"];
// To find all crawls, Redis reads the names of all its keys.
const LIST_MS = 10000;
// The view in which a section of the page is found.
const SECTION = { host: "hosts" };
const LOST = "The crawler does not answer. Its process may have ended; this page comes back by itself.";

const KINDS = { running: "good", paused: "warn", idle: "", stopped: "bad", finished: "" };

let parts = null;
let events = null;
let paused = false;
let timer = 0;
let listed = -Infinity;
// Worker -> seconds since its last beat.
let silent = new Map();

function failed(error, loud = false) {
  if (error instanceof Refused) signOut(error.message);
  else if (loud) toast(error.message, "bad");
}

// --- sign-in ------------------------------------------------------------------------------------

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  setText($("sign-in-error"), "");
  token.set($("token").value.trim());
  try {
    start(await get("/access"));
  } catch (error) {
    token.forget();
    setText($("sign-in-error"), error.message);
    $("token").select();
    return;
  }
  $("token").value = "";
  // The field that had the focus is gone.
  $("main").focus();
});

function signOut(message = "") {
  events?.close();
  events = null;
  clearInterval(timer);
  token.forget();
  chosen.set("");
  listed = -Infinity;
  $("app").hidden = true;
  $("sign-in").hidden = false;
  setText($("sign-in-error"), message);
  $("token").focus();
}

$("sign-out").addEventListener("click", () => signOut());

// --- the crawl ----------------------------------------------------------------------------------

function start(access) {
  allow(access);
  $("sign-in").hidden = true;
  $("app").hidden = false;
  parts ??= {
    ...{ overview: new Overview(), hosts: new Hosts(failed), host: new Host(failed), url: new Urls(failed), pages: new Pages(failed) },
    ...{ dead: new Dead(failed), options: new Options(failed), log: new Log(failed), seeds: new Seeds(failed), search: new Search(failed) },
  };
  listen();
  listCrawls();
  route();
  timer = setInterval(look, SLOW_MS);
}

function listen() {
  parts.overview.nothing("Loading …");
  noWorkers("Loading …");
  noSinks("Loading …");
  events?.close();
  events = new Events("/events", {
    state: connection,
    status: (text) => showStatus(JSON.parse(text)),
    vitals: (text) => showVitals(JSON.parse(text)),
    trouble: (text) => {
      trouble(text);
      $("state").className = "badge";
      setText($("state"), "unknown");
      $("stopped").hidden = true;
      parts.overview.nothing("No figures");
      noWorkers("No figures");
      noSinks("No figures");
    },
  });
}

// --- all crawls of this Redis -------------------------------------------------------------------

async function listCrawls() {
  if (performance.now() - listed < LIST_MS) return;
  listed = performance.now();
  try {
    const { served, crawls } = await get("/crawls");
    const named = crawls.some((one) => one.crawl === served) ? crawls : [{ crawl: served, state: "unknown" }, ...crawls];
    const now = chosen.get() || served;
    // The state of the one that is shown stands beside it.
    const text = ({ crawl, state }) => (crawl === now ? crawl : `${crawl} (${state})`);
    const key = named.map(text).join();
    if (key === $("crawl-choice").dataset.key) return;
    $("crawl-choice").dataset.key = key;
    $("crawl-choice").replaceChildren(...named.map((one) => h("option", { value: one.crawl === served ? "" : one.crawl, selected: one.crawl === now }, text(one))));
  } catch (error) {
    failed(error);
  }
}

for (const kind of ["focus", "pointerenter"]) $("crawl-choice").addEventListener(kind, listCrawls);
$("crawl-choice").addEventListener("change", () => {
  chosen.set($("crawl-choice").value);
  listed = -Infinity;
  listCrawls();
  listen();
  route();
});

// --- views --------------------------------------------------------------------------------------

// The address after "#" is the view, and what it is about: #host/example.com.
function shown() {
  const [view, ...about] = location.hash.slice(1).split("/");
  let text = about.join("/");
  try {
    text = decodeURIComponent(text);
  } catch {
    // Not encoded: as it stands.
  }
  return VIEWS.includes(view) ? [view, text] : ["overview", ""];
}

function route() {
  if (!parts) return;
  const [view, about] = shown();
  for (const each of VIEWS) $(`${each}-view`).hidden = each !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${SECTION[view] ?? view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "hosts") parts.hosts.load();
  else if (view === "overview") parts.overview.draw();
  else parts[view]?.open(about);
}

addEventListener("hashchange", () => {
  if ($("app").hidden) return;
  route();
  scrollTo(0, 0);
});

$("lookup").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("lookup-text").value.trim();
  if (!text) return;
  const view = text.includes("/") ? "url" : "host";
  const hash = `#${view}/${encodeURIComponent(text)}`;
  if (location.hash === hash) route();
  else location.hash = hash;
});

// What is not sent by itself: tables, as long as somebody looks at them.
function look() {
  if (document.hidden) return;
  parts[shown()[0]]?.refresh?.();
}

function showStatus(status) {
  trouble(status.troubles.join(" · "));
  paused = status.paused;
  serverTime(status.at);
  setText($("crawl"), status.crawl);
  document.title = `${status.crawl} · Crawler`;
  $("state").className = `badge ${KINDS[status.state]}`;
  setText($("state"), status.state);
  const stopped = status.state === "stopped";
  document.body.classList.toggle("at-rest", stopped || status.state === "finished");
  $("stopped").hidden = !stopped;
  setText($("stopped"), stopped ? `The crawl is stopped: no process works on it, and ${count(status.unfinished)} URLs are left. Start it again by the command that began it.` : "");
  $("pause").disabled = false;
  setText($("pause"), paused ? "Resume" : "Pause");
  parts.overview.status(status, silent);
  showWorkers(status, silent, failed);
}

function showVitals(vitals) {
  silent = new Map(vitals.workers.map((worker) => [worker.name, worker.silent_s]));
  parts.overview.figures(vitals);
  showSinks(vitals);
}

function connection(state, why = "") {
  if (state === "refused") {
    signOut("The token is not valid any more.");
    return;
  }
  const live = state === "live";
  $("live").className = `live ${live ? "good" : "bad"}`;
  setText($("live-text"), live ? "live" : "reconnecting");
  if (!live) {
    $("pause").disabled = true;
    trouble(why || LOST);
  }
}

function trouble(text) {
  setText($("trouble"), text);
  $("trouble").hidden = !text;
}

$("pause").addEventListener("click", async () => {
  $("pause").disabled = true;
  try {
    const answer = await call("POST", paused ? "/crawl/resume" : "/crawl/pause");
    toast(answer.paused ? "Paused: what is in flight finishes, nothing new starts." : "The crawl goes on.");
    paused = answer.paused;
    setText($("pause"), paused ? "Resume" : "Pause");
  } catch (error) {
    failed(error, true);
  } finally {
    $("pause").disabled = false;
  }
});

explainWords();
if (token.get()) {
  // Without an answer, the server refuses what the token does not allow.
  get("/access").then(start, (error) => (error instanceof Refused ? signOut(error.message) : start({ role: "operate" })));
} else {
  signOut();
}
