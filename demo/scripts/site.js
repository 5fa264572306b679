// What sites do beside showing their content: they count visits, and listen for news.
document.documentElement.classList.add("js");
navigator.sendBeacon("/collect", location.pathname);
new Image().src = "/static/pixel.gif";
new WebSocket(`ws://${location.host}/live`);
