"""What hostile servers cost a crawl: time, holds of its event loop, memory, and other hosts.

`zoo` crawls each behaviour of demo/hostile by a crawl of its own, at full size: what is large has
10 MB. A row is good if the behaviour ended as it must, nothing held the event loop for more than
100 ms, and the crawl took 400 MB at most. `--write` puts the table into docs/reliability.md.

`beside` crawls ordinary hosts, which answer after half a second, in turns: alone, and beside the
whole zoo. What is compared is the rate of ordinary pages (beside.py).
"""
