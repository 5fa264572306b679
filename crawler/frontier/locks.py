"""Locks in Redis that end by themselves: a key with the token of whoever holds it."""

from __future__ import annotations

# KEYS[1] the lock, ARGV[1] the token: one that expired and is another's by now stays.
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
# The same; ARGV[2] ms that it holds from now on.
LOCK_ON = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
)
