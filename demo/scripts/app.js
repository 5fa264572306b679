// A site in the browser: every route's document is the same shell, and an API has the content.
const app = document.getElementById("app");

// As the API knows it: links from elsewhere may carry tracking parameters.
function route() {
  return location.pathname + location.search.replace(/[?&]utm_[^&]*/g, "");
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function link({ url, text }) {
  const made = element("a", text);
  made.href = url;
  made.addEventListener("click", (event) => {
    if (made.origin === location.origin) {
      event.preventDefault();
      history.pushState(null, "", url);
      show();
    }
  });
  return made;
}

async function show() {
  const api = route().startsWith("/closed/") ? "/closed-api" : app.dataset.api;
  const answer = await fetch(`${api}?path=${encodeURIComponent(route())}`);
  const page = await answer.json();
  if (page.fatal === "memory") {
    for (const kept = []; ; ) kept.push(new Array(1 << 20).fill(1.5));
  }
  if (page.fatal === "loop") {
    for (;;);
  }
  if (page.has_busy_worker) {
    new Worker(URL.createObjectURL(new Blob(["for (;;);"])));
  }
  if (page.push) {
    history.pushState(null, "", page.push);
  }
  const list = document.createElement("ul");
  for (const each of page.links) {
    const item = document.createElement("li");
    item.append(link(each));
    list.append(item);
  }
  document.title = page.title;
  const article = document.createElement("article");
  article.append(element("h1", page.title), ...page.texts.map((text) => element("p", text)));
  app.replaceChildren(article, list);
}

addEventListener("popstate", show);
show().catch(() => app.replaceChildren());
