"""A synthetic web on loopback: deterministic sites, their truth, and a judge of crawls."""
