"""What a page costs on its whole way: our crawl and its peers, the same pages in one run."""
