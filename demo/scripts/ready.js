// Wakes a page up that came from the server with all of its content.
for (const link of document.querySelectorAll("#root a")) {
  link.addEventListener("mouseover", () => link.classList.add("seen"));
}
document.getElementById("root").dataset.ready = "yes";
