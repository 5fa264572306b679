// A list that grows whenever its end comes into view.
const list = document.getElementById("list");
const end = document.getElementById("end");
let next = 0;

async function grow() {
  if (next === null) {
    return;
  }
  const from = next;
  next = null;
  const answer = await fetch(`/api/list?from=${from}`);
  const batch = await answer.json();
  for (const { url, title, text } of batch.items) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const teaser = document.createElement("p");
    link.href = url;
    link.textContent = title;
    teaser.textContent = text;
    // Few items fill a window.
    item.style.minHeight = "400px";
    item.append(link, teaser);
    list.append(item);
  }
  next = batch.next;
}

grow().then(() => {
  new IntersectionObserver((seen) => {
    if (seen.some((each) => each.isIntersecting)) {
      grow();
    }
  }).observe(end);
});
