// Puts the article into a page whose frame came from the server.
addEventListener("load", () => {
  setTimeout(() => {
    const path = location.pathname + location.search.replace(/[?&]utm_[^&]*/g, "");
    const request = new XMLHttpRequest();
    request.open("GET", `/article?path=${encodeURIComponent(path)}`);
    request.onload = () => {
      if (request.status === 200) {
        document.querySelector("main").innerHTML = request.responseText;
      }
    };
    request.send();
  }, 200);
});
