"""The machine: what the figures were measured on, and how many files may be open."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from crawler.servers.embedded import find_mongod, find_redis_server

_PACKAGES = ("scrapy", "redis", "hiredis", "scrapy-redis")


def footer() -> str:
    """Two lines about this machine; the load tells how far to trust the figures above it."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{hardware()}, load {load}\n{software()}"


def hardware() -> str:
    """Processor and memory."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GB"


def software() -> str:
    """System and versions."""
    packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        f"{platform.system()} {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}, {_redis()}, {_mongod()}; {packages}"
    )


def short_commit() -> str:
    """The commit that is measured, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return found.stdout.strip() or "unknown"


def raise_file_limit(needed: int) -> None:
    """Let this process open so many files, or as many as the system allows."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        needed = min(needed, most)
    if limit != resource.RLIM_INFINITY and limit < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _redis() -> str:
    """Which server is measured, and its version."""
    program = find_redis_server()
    if program is None:
        return "no Redis"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = next((word[2:] for word in said.stdout.split() if word.startswith("v=")), "unknown")
    return f"{said.stdout.split(' ', 1)[0]} {number}"


def _mongod() -> str:
    program = find_mongod()
    if program is None:
        return "no MongoDB"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"v(\d+[\d.]*)", said.stdout)
    return f"MongoDB {found[1] if found else 'unknown'}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
