// Adds to pages of other hosts what the robots.txt of this one keeps from crawlers.
const widget = document.createElement("aside");
widget.textContent = "Today only: a widget that crawlers must not see.";
document.body.append(widget);
