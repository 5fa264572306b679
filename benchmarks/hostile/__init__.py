"""What hostile servers cost a crawl: time, holds of its event loop, memory, and other hosts."""
