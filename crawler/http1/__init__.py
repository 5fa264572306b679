"""HTTP/1.1 as a crawl needs it: requests written, connections kept, answers taken as they come."""
