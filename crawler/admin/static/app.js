// Sign in, listen to the crawl, and let each part of the page show what it is about.

import { call, Events, get, Problem, Refused, token } from "./api.js";
import { Dead } from "./dead.js";
import { $, setText, toast } from "./dom.js";
import { Hosts } from "./hosts.js";
import { Overview } from "./overview.js";
import { Search } from "./search.js";
import { Seeds } from "./seeds.js";
import { noSinks, showSinks } from "./sinks.js";
import { noWorkers, showWorkers } from "./workers.js";

const SLOW_MS = 5000;
const LOST = "The crawler does not answer. Its process may have ended; this page comes back by itself.";

let parts = null;
let events = null;
let paused = false;
let timer = 0;
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
    await get("/workers");
  } catch (error) {
    // No such crawl (404) or no Redis (503): the token is right all the same.
    if (!(error instanceof Problem) || error.status === 0) {
      token.forget();
      setText($("sign-in-error"), error.message);
      $("token").select();
      return;
    }
  }
  $("token").value = "";
  start();
  // The field that had the focus is gone.
  $("main").focus();
});

function signOut(message = "") {
  events?.close();
  events = null;
  clearInterval(timer);
  token.forget();
  $("app").hidden = true;
  $("sign-in").hidden = false;
  setText($("sign-in-error"), message);
  $("token").focus();
}

$("sign-out").addEventListener("click", () => signOut());

// --- the crawl ----------------------------------------------------------------------------------

function start() {
  $("sign-in").hidden = true;
  $("app").hidden = false;
  parts ??= { overview: new Overview(), hosts: new Hosts(failed), dead: new Dead(failed), seeds: new Seeds(failed), search: new Search(failed) };
  parts.overview.nothing("Loading …");
  events = new Events("/events", {
    state: connection,
    status: (text) => showStatus(JSON.parse(text)),
    vitals: (text) => showVitals(JSON.parse(text)),
    trouble: (text) => {
      trouble(text);
      $("state").className = "badge";
      setText($("state"), "unknown");
      parts.overview.nothing("No figures");
      noWorkers("No figures");
      noSinks("No figures");
    },
  });
  noWorkers("Loading …");
  noSinks("Loading …");
  look();
  timer = setInterval(look, SLOW_MS);
}

// What is not sent by itself: tables, as long as somebody looks at them.
function look() {
  if (document.hidden) return;
  parts.hosts.refresh();
  parts.dead.refresh();
}

function showStatus(status) {
  trouble(status.troubles.join(" · "));
  paused = status.paused;
  setText($("crawl"), status.crawl);
  document.title = `${status.crawl} · Crawler`;
  const [kind, text] = stateOf(status);
  $("state").className = `badge ${kind}`;
  setText($("state"), text);
  $("pause").disabled = false;
  setText($("pause"), paused ? "Resume" : "Pause");
  parts.overview.status(status, silent);
  showWorkers(status, silent);
}

function showVitals(vitals) {
  silent = new Map(vitals.workers.map((worker) => [worker.name, worker.silent_s]));
  parts.overview.figures(vitals);
  showSinks(vitals);
}

function stateOf(status) {
  if (status.paused) return ["warn", "paused"];
  if (status.workers.length) return status.unfinished ? ["good", "running"] : ["", "idle"];
  return status.unfinished ? ["bad", "no workers"] : ["", "finished"];
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

if (token.get()) start();
else signOut();
