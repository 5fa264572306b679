"""What the frontier costs: URLs a second, bytes a URL, and whether either grows with the crawl."""
