"""What a crawl shows of itself: figures, the live view, the plain line and the summary."""
