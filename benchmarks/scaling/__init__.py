"""Does the crawl keep its speed with many processes, hosts, seeds, connections and waiting URLs?"""
