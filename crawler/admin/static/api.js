// Speak with the admin API. The token is kept for this tab only, and never part of an address.

const KEY = "crawler.token";
const PATIENCE_MS = 30000;

export class Refused extends Error {}

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

const CRAWL = "crawler.crawl";

// The crawl that is looked at; empty for the one that the server serves.
export const chosen = {
  get: () => sessionStorage.getItem(CRAWL) ?? "",
  set: (name) => (name ? sessionStorage.setItem(CRAWL, name) : sessionStorage.removeItem(CRAWL)),
};

const ofCrawl = (path) => {
  const crawl = chosen.get();
  return crawl ? `${path}${path.includes("?") ? "&" : "?"}crawl=${encodeURIComponent(crawl)}` : path;
};

const headers = () => ({ Authorization: `Bearer ${token.get()}` });

async function problemOf(response) {
  if (response.status === 401) return new Refused("The token is missing or wrong.");
  let detail = `The server answered ${response.status}.`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch {
    // No JSON: the status says enough.
  }
  return new Problem(response.status, detail);
}

// Send a request, of whose answer nothing is read. `body` is JSON as text.
export async function send(method, path, body) {
  const options = { method, headers: headers(), signal: AbortSignal.timeout(PATIENCE_MS) };
  if (body !== undefined) {
    options.body = body;
    options.headers["Content-Type"] = "application/json";
  }
  try {
    return await fetch(path, options);
  } catch {
    throw new Problem(0, "The crawler does not answer.");
  }
}

export async function call(method, path, body) {
  const response = await send(method, ofCrawl(path), body === undefined ? undefined : JSON.stringify(body));
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

export const get = (path, query = {}) => {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== null));
  return call("GET", search.size ? `${path}?${search}` : path);
};

// Server-sent events, read by fetch(), since EventSource cannot send a token. Comes back by itself.
//   on: {event name: function(text)}, and `state` for "live", "lost" (and why, if it was said) and "refused"
export class Events {
  constructor(path, on) {
    this.path = path;
    this.on = on;
    this.wait = 500;
    this.open = true;
    this.run();
  }

  close() {
    this.open = false;
    this.abort?.abort();
  }

  async run() {
    while (this.open) {
      let why = "";
      try {
        await this.read();
      } catch (error) {
        if (error instanceof Refused) {
          if (this.open) this.on.state("refused");
          return;
        }
        if (error instanceof Problem) why = error.message;
      }
      if (!this.open) return;
      this.on.state("lost", why);
      await new Promise((resolve) => setTimeout(resolve, this.wait));
      this.wait = Math.min(this.wait * 2, 10000);
    }
  }

  async read() {
    this.abort = new AbortController();
    const response = await fetch(ofCrawl(this.path), { headers: headers(), signal: this.abort.signal, cache: "no-store" });
    if (!response.ok) throw await problemOf(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = "";
    for (;;) {
      // The server says something at least every ten seconds.
      const timer = setTimeout(() => this.abort.abort(), PATIENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      waiting += value;
      const events = waiting.split("\n\n");
      waiting = events.pop();
      events.forEach((event) => this.take(event));
    }
  }

  take(event) {
    let name = "message";
    const data = [];
    for (const line of event.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      else if (line.startsWith("data: ")) data.push(line.slice(6));
    }
    if (!data.length) return;
    this.wait = 500;
    this.on.state("live");
    this.on[name]?.(data.join("\n"));
  }
}
